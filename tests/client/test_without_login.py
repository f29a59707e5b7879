"""A client that will never be let in says so at once, in one sentence, and does not wait for its time to be over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow
import pytest
from tests.patience import HANG_S

import ottla
from ottla.client.consumer.range_reader import RangeReader
from ottla.client.consumer.ranges import TopicRange
from ottla.errors import AuthenticationFailed, SaslAuthenticationFailed
from ottla.testing import KafkaBroker

WAIT_MS = int(HANG_S * 1000)
MECHANISM = "SCRAM-SHA-512"
ROWS = pyarrow.schema([("value", pyarrow.binary())])
WRONG = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": MECHANISM,
    "sasl_plain_username": "alice",
    "sasl_plain_password": "wrong",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    settings = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": f"{MECHANISM},SCRAM-SHA-256"}
    with KafkaBroker(settings, users={"alice": "right"}) as running:
        yield running


def read_ranges(**settings: Any) -> object:
    with RangeReader(**settings) as reader:
        return list(reader.read([TopicRange("t", 0, 0, 5)], ROWS, poll_timeout_ms=WAIT_MS))


def poll_assigned(**settings: Any) -> object:
    with ottla.Consumer(**settings) as consumer:
        consumer.assign([ottla.TopicPartition("t", 0)])
        return consumer.poll(timeout=HANG_S)


def poll_subscribed(**settings: Any) -> object:
    with ottla.Consumer("t", group_id="g", **settings) as consumer:
        return consumer.poll(timeout=HANG_S)


def produce(**settings: Any) -> object:
    with ottla.Producer(max_block_ms=WAIT_MS, **settings) as producer:
        return producer.send("t", b"1").result(HANG_S)


def list_topics(**settings: Any) -> object:
    with ottla.Admin(default_api_timeout_ms=WAIT_MS, **settings) as admin:
        return admin.list_topics()


EVERYBODY = [read_ranges, poll_assigned, poll_subscribed, produce, list_topics]


@pytest.mark.parametrize("work", EVERYBODY)
def test_a_wrong_login_is_an_error_at_once(broker: KafkaBroker, work: Callable[..., object]) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        work(bootstrap_servers=broker.bootstrap_servers, **WRONG)


@pytest.mark.parametrize("work", EVERYBODY)
def test_no_login_is_an_error_at_once_that_says_in_one_sentence_what_to_set(
    broker: KafkaBroker, work: Callable[..., object]
) -> None:
    with pytest.raises(AuthenticationFailed) as refused:
        work(bootstrap_servers=broker.bootstrap_servers)
    assert refused.value.detail == (
        f"bootstrap server {broker.bootstrap_servers} wants a login by {MECHANISM} or SCRAM-SHA-256, and "
        "security.protocol here is PLAINTEXT: set it to SASL_PLAINTEXT, with sasl.mechanism and a user"
    )
