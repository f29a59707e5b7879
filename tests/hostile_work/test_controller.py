"""Every API of a controller with the worst requests we know, and the door through which nodes join."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.hostile_work.attack import Attacked, findings
from tests.hostile_work.attacked_broker import CONTROLLER
from tests.hostile_work.crafted_quorum import LOG, QUORUM_CRAFTED
from tests.hostile_work.crafted_requests import made
from tests.hostile_work.wire import wire_attacks
from tests.patience import wait_until

from ottla.broker.requests.served import CONTROLLER_APIS
from ottla.protocol.api import APIS, Api

BEGIN_EPOCHS = ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch")
OF_CONTROLLERS = sorted((APIS[key] for key in CONTROLLER_APIS), key=lambda api: (api.name in BEGIN_EPOCHS, api.name))
"""Those last that begin epochs: what is asked of the leader names the first one."""


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with Attacked(tmp_path_factory.mktemp("controller"), CONTROLLER) as attacked:
        yield attacked


def leads(controller: Attacked) -> bool:
    topics = [{"topic_name": LOG, "partitions": [{}]}]
    with controller.wire(None) as client:
        answer = client.ask(made("DescribeQuorum", topics=topics))
    return answer is not None and not answer.error_code and answer.topics[0].partitions[0].leader_id == 1


def test_every_api_of_a_controller_has_hostile_requests_or_says_why_not():
    for name, entry in QUORUM_CRAFTED.items():
        assert entry, f"{name}: a list of requests, or a sentence"
        assert isinstance(entry, str) is False or "controllers only" not in entry, name


@pytest.mark.parametrize("api", OF_CONTROLLERS, ids=lambda api: api.name)
def test_no_request_holds_a_controller_or_fills_its_memory(controller: Attacked, api: Api):
    wait_until(lambda: leads(controller), "it leads")
    found = findings(controller, wire_attacks(controller, api, is_long=False, crafted_requests=QUORUM_CRAFTED, ids=()))
    assert not found, "\n".join(found)


@pytest.mark.long
@pytest.mark.parametrize("api", OF_CONTROLLERS, ids=lambda api: api.name)
def test_no_request_at_its_limits_holds_a_controller_or_fills_its_memory(controller: Attacked, api: Api):
    wait_until(lambda: leads(controller), "it leads")
    found = findings(controller, wire_attacks(controller, api, is_long=True, crafted_requests=QUORUM_CRAFTED, ids=()))
    assert not found, "\n".join(found)


def test_a_controller_that_was_attacked_leads_and_decides(controller: Attacked):
    wait_until(lambda: leads(controller), "it leads")
    with controller.wire(None) as client:
        answer = client.ask(made("AlterConfigs", resources=[], validate_only=True))
    assert answer is not None
