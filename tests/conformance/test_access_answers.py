"""Every request of every version is answered under every rule set as Apache Kafka 4.3.1 answers it.

tests/golden/access/kafka-4.3.1.tsv has Kafka's answers to all probes (access/probes.py) under all rule sets
(access/rules.py). `make test` sends to our broker what the table tells apart; the long tests send everything, to ours
and to Kafka again, so that the table stays what Kafka says. It is written anew by running the long test with
OTTLA_WRITE_ACCESS_TABLE=1.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.conformance.access.building import API_OF_NAME, built
from tests.conformance.access.kafka import ADMIN, Users, secured_kafka
from tests.conformance.access.ours import Ours
from tests.conformance.access.probes import Probe, all_probes
from tests.conformance.access.rules import rule_sets
from tests.conformance.access.showing import shown
from tests.conformance.access.table import Answers, Case, ask_all, read, write
from tests.conformance.access.world import World
from tests.conformance.java_programs import jars_or_skip

from ottla.broker.requests.served import SERVED_APIS, served
from ottla.broker.security.access import Access
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.api import APIS
from ottla.protocol.schema import Message

TABLE = Path(__file__).parent.parent / "golden" / "access" / "kafka-4.3.1.tsv"
WITHOUT_RULES = {
    *("SaslHandshake", "SaslAuthenticate"),  # over before anybody can be refused
    *("GetTelemetrySubscriptions", "PushTelemetry"),  # nobody needs a right for them
}
TELLING = ("none", "all", "only-TOPIC-DESCRIBE", "but-TOPIC-CREATE")  # under which everything is asked that can be
IN_SESSIONS = {("ShareFetch", AclResource.TOPIC), ("ShareAcknowledge", AclResource.TOPIC)}  # no probe has one
OTHERS = 3  # of the rule sets that are answered as most are


@pytest.fixture(scope="module")
def ours() -> Iterator[Ours]:
    broker = Ours(rule for rules in rule_sets().values() for rule in rules)
    yield broker
    broker.close()


def _as_kafka(probe: Probe, text: str) -> str:
    """Without what has nothing to do with access. Of a topic that it begins to create, Kafka 4 says that it is unknown,
    and we that it has no leader yet, as Kafka did for ten years; either tells clients to ask again. The listener at
    which who decides can be asked is that of brokers here. And where there is no coordinator, we say so and Kafka that
    it is another one; either way it is looked for."""
    if "may be made" in probe.name:
        return text.replace("LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION")
    if probe.api == "DescribeQuorum":
        return re.sub(r"listeners\[\w+\]", "listeners[CONTROLLER]", text)
    if probe.name == "no coordinator":
        return text.replace("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
    return text


def _answering(ask: Callable[[str, Message, int], Any], world: World) -> Callable[[Probe, int, str], str]:
    def answer(probe: Probe, version: int, user: str) -> str:
        response = ask(user, built(probe.api, version, probe.values, world.ids), version)
        names = {each: name for name, each in world.ids.items()}
        text = "closed" if response is None else _as_kafka(probe, shown(response, version, names))
        if probe.restores:
            world.restore()
        return text

    return answer


def _differences(answers: Answers, golden: Answers) -> list[str]:
    return [
        f"{case}: {text}, expected {golden.get(case)}" for case, text in answers.items() if text != golden.get(case)
    ]


def _telling(golden: Answers) -> Callable[[Probe, int], Iterable[str]]:
    """Which rule sets to send a probe under: of each version whose answers are others than those of the one before, all
    rule sets that are not answered as most are, and some of those."""
    random = Random(13)

    def users(probe: Probe, version: int) -> list[str]:
        now, before = (
            {user: golden.get(Case(probe.api, each, probe.name, user)) for user in rule_sets()}
            for each in (version, version - 1)
        )
        ordinary, _ = Counter(now.values()).most_common(1)[0]
        others = random.sample([user for user, text in now.items() if text == ordinary], OTHERS)
        telling = [user for user, text in now.items() if text != ordinary]
        return others if now == before else telling + others

    return users


def test_every_api_and_version_that_is_served_has_a_probe() -> None:
    probed = {(probe.api, version) for probe in all_probes() for version in probe.versions}
    served = {(api.name, version) for api in map(APIS.get, SERVED_APIS) for version in _versions(api)}
    assert {each for each in served if each[0] not in WITHOUT_RULES} == probed


def _versions(api: Any) -> range:
    return range(api.advertised.min, api.advertised.max + 1)


@pytest.mark.parametrize("api", sorted({probe.api for probe in all_probes()}))
def test_our_broker_answers_as_kafka_does_under_the_same_rules(api: str, ours: Ours) -> None:
    golden = read(TABLE)
    probes = [probe for probe in all_probes() if probe.api == api]
    answers = ask_all(probes, _answering(ours.ask, ours.world), _telling(golden))
    assert _differences(answers, golden) == []


class Asked:
    """An Access that notes what it is asked."""

    def __init__(self, behind: Access) -> None:
        self._behind = behind
        self.operations, self.update, self.is_on = behind.operations, behind.update, behind.is_on
        self.noted: set[tuple[AclOperation, AclResource]] = set()

    def _note(self, name: str, context: Any, operation: AclOperation, resource: AclResource, *more: Any, **kinds: Any):
        self.noted.add((operation, resource))
        return getattr(self._behind, name)(context, operation, resource, *more, **kinds)

    def __getattr__(self, name: str) -> Any:
        return partial(self._note, name)


@pytest.mark.parametrize("api", sorted({probe.api for probe in all_probes()}))
def test_what_is_asked_is_what_the_handler_declares(api: str, ours: Ours, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(ours.broker.broker.access)
    monkeypatch.setattr(ours.broker.broker, "access", asked)
    probes = [probe for probe in all_probes() if probe.api == api]
    for probe in probes:
        for version, user in product(probe.versions, TELLING):
            ours.ask(user, built(probe.api, version, probe.values, ours.world.ids), version)
    needs = served(API_OF_NAME[api]).needs
    every = [each for need in needs for each in (need, need.unless) if each is not None]
    declared = {(each.operation, each.resource) for each in every if (api, each.resource) not in IN_SESSIONS}
    monkeypatch.undo()
    ours.world.restore()
    assert asked.noted == declared


@pytest.mark.long
def test_our_broker_answers_the_whole_table(ours: Ours) -> None:
    golden = read(TABLE)
    answers = ask_all(all_probes(), _answering(ours.ask, ours.world), lambda *_: rule_sets())
    assert _differences(answers, golden) == []
    assert answers.keys() == golden.keys()


@pytest.mark.long
def test_the_table_is_what_kafka_answers(tmp_path: Path) -> None:
    with secured_kafka(jars_or_skip("4.3"), tmp_path) as address:
        users = Users(address)
        world = World(lambda request, version: users.ask(ADMIN, request, version))
        world.make(rule for rules in rule_sets().values() for rule in rules)
        world.make_token()
        answers = ask_all(all_probes(), _answering(users.ask, world), lambda *_: rule_sets())
        users.close()
    if os.environ.get("OTTLA_WRITE_ACCESS_TABLE"):
        write(TABLE, answers)
    assert _differences(answers, read(TABLE)) == []
