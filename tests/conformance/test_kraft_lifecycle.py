"""The lifecycle machine of a broker against the controller of Apache Kafka 4.3.1 (`long`).

The machine decides, a loop of ten lines sends what it says to Apache's controller listener. Following the metadata log
is another machine's affair, so here a broker claims to have applied the log up to its registration. What Apache
believes of it is asked through Apache's broker: DescribeCluster, with the brokers that are fenced.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random

import pytest
from tests.conformance.java_programs import jars_or_skip
from tests.conformance.kafka_broker import CLUSTER_ID
from tests.conformance.kafka_broker import KafkaBroker as ApacheBroker
from tests.conformance.transaction_probes import Wire

from ottla.broker.cluster.kraft.lifecycle import BrokerLifecycle, BrokerState, Event, LifecycleSettings
from ottla.protocol.api import api_of
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest

pytestmark = pytest.mark.long

BROKER_ID = 7
DIRECTORY = b"directory of 7.."
SESSION_MS = 2_000
SETTINGS = LifecycleSettings(
    heartbeat_interval_ms=300.0,
    session_timeout_ms=float(SESSION_MS),
    registration_timeout_ms=10_000.0,
    directory_failure_timeout_ms=5_000.0,
)
FEATURES = {
    "metadata.version": (7, 30),
    "kraft.version": (0, 1),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
}
LIMIT_S = 20.0


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheBroker]:
    scratch = tmp_path_factory.mktemp("apache")
    kafka = ApacheBroker(
        jars_or_skip("4.3"),
        scratch,
        scratch / "data",
        f"broker.session.timeout.ms={SESSION_MS}\nbroker.heartbeat.interval.ms=300\n",
    )
    kafka.format()
    with kafka:
        yield kafka


@pytest.fixture
def driver_of(apache: ApacheBroker) -> Iterator[Callable[..., Driver]]:
    with ExitStack() as stack:
        yield lambda **more: Driver(apache, stack.enter_context(Wire(apache.bootstrap_controller)), **more)


class Driver:
    """A broker that is nothing but its lifecycle."""

    def __init__(self, apache: ApacheBroker, wire: Wire, *, cluster_id: str = CLUSTER_ID, without: str = "") -> None:
        self.apache = apache
        self.wire = wire
        registration = BrokerRegistrationRequest(
            broker_id=BROKER_ID,
            cluster_id=cluster_id,
            incarnation_id=Random(time.monotonic_ns()).randbytes(16),
            listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9, security_protocol=0)],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in FEATURES.items()
                if name != without
            ],
            log_dirs=[DIRECTORY],
        )
        self.lifecycle = BrokerLifecycle(registration, SETTINGS, Random(1), now_ms())

    def run_until(self, wanted: Event) -> list[Event]:
        """Do what the machine says, up to an event; gives all that came."""
        events: list[Event] = []
        end_s = time.monotonic() + LIMIT_S
        while wanted not in events:
            assert time.monotonic() < end_s, f"{wanted} did not come, only {events}"
            wake_ms = self.lifecycle.wake_ms()
            assert wake_ms is not None, self.lifecycle.failure
            time.sleep(max(0.0, min(wake_ms - now_ms(), 1_000) / 1_000))
            events += self.step()
        return events

    def step(self) -> list[Event]:
        request = self.lifecycle.request(now_ms())
        if request is None:
            return self.lifecycle.passed(now_ms())
        answer = self.wire.ask(request, api_of(request).advertised.max)
        events = self.lifecycle.answered(answer, now_ms())
        self.lifecycle.applied(self.lifecycle.epoch)
        return events

    def start(self) -> None:
        self.run_until(Event.CAUGHT_UP)
        self.lifecycle.ready(now_ms())
        self.run_until(Event.UNFENCED)

    def known_as(self) -> str:
        """What Apache's broker tells clients of this one."""
        with Wire(self.apache.bootstrap) as wire:
            request = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True)
            brokers = {broker.broker_id: broker for broker in wire.ask(request, 2).brokers}
        if BROKER_ID not in brokers:
            return "nobody"
        return "fenced" if brokers[BROKER_ID].is_fenced else "live"

    def becomes(self, wanted: str) -> bool:
        end_s = time.monotonic() + LIMIT_S
        while (known := self.known_as()) != wanted and time.monotonic() < end_s:
            time.sleep(0.05)
        return known == wanted


def now_ms() -> float:
    return time.monotonic() * 1_000


def test_a_broker_is_unfenced_forgotten_comes_back_and_leaves_in_order(
    driver_of: Callable[..., Driver],
) -> None:
    driver = driver_of()
    driver.start()
    assert driver.lifecycle.state is BrokerState.RUNNING
    assert driver.becomes("live")
    first_epoch = driver.lifecycle.epoch

    time.sleep(SESSION_MS / 1_000)  # it is silent for a whole session
    assert driver.becomes("fenced")
    driver.step()
    assert driver.becomes("live")
    assert driver.lifecycle.epoch == first_epoch

    driver.wire.ask(UnregisterBrokerRequest(broker_id=BROKER_ID), 0)
    driver.run_until(Event.REGISTERED)
    assert driver.lifecycle.epoch > first_epoch
    driver.run_until(Event.UNFENCED)
    assert driver.becomes("live")

    assert driver.lifecycle.begin_shutdown(now_ms()) == []
    driver.run_until(Event.MAY_STOP)
    assert driver.lifecycle.failure is None
    assert driver.becomes("fenced")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cluster_id": "AAAAAAAAAAAAAAAAAAAAAA"}, "another cluster"),
        ({"without": "share.version"}, "finalized a feature"),
    ],
)
def test_a_registration_that_apache_refuses_for_good_ends_the_start(
    driver_of: Callable[..., Driver], given: dict[str, str], said: str
) -> None:
    driver = driver_of(**given)
    assert driver.run_until(Event.MUST_STOP) == [Event.MUST_STOP]
    assert said in (driver.lifecycle.failure or "")
