"""pytest fixtures: a real Kafka broker in the test process.

    def test_orders_are_sent(kafka_broker, unique_topic):
        send_order(bootstrap_servers=kafka_broker.bootstrap_servers, topic=unique_topic)

kafka_broker           the session's broker, for one test: what the test writes is rolled back after it
kafka_broker_session   the same broker for fixtures of a wider scope; nothing is rolled back
kafka_broker_fresh     a broker of its own for one test
kafka_bootstrap        the address, as text
unique_topic           a topic name nobody else uses; the topic is made when first used
unique_group           a group name nobody else uses
kafka_broker_settings  override this fixture (session scope) to change settings, with Kafka's names
kafka_cluster          makes a simulated cluster with faults, in virtual time, for our asyncio client; `--kafka-seed N`
kafka_cluster.real     makes a cluster of processes behind a proxy that injects faults, in real time, for any client
pipeline_test          runs a pipeline on records that are given, on real Spark, without a broker (pipelines.py)

Any client library works with a broker: it speaks Kafka on a loopback port.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ottla.testing.broker import KafkaBroker
    from ottla.testing.pipelines import PipelineTest

_numbers = count(1)


def _leave_as_written(packages: frozenset[str] = frozenset({"ottla", "pyspark_ottla", "pyspark_ottla_doctor"})) -> None:
    """Take our modules off pytest's list of those whose asserts it rewrites: it has every module of a distribution with
    a plugin there, and ours are hundreds. The first run of a user's tests would parse them all again, some of them in
    threads, which CPython 3.11 does not always survive. pytest has no public call for it."""
    for finder in sys.meta_path:
        rewritten = getattr(finder, "_must_rewrite", None)
        if isinstance(rewritten, set):
            rewritten -= packages
            getattr(finder, "_marked_for_rewrite_cache", {}).clear()


_leave_as_written()


@pytest.fixture(scope="session")
def kafka_broker_settings() -> Mapping[str, object]:
    """Settings of the broker, with Kafka's names; override it in your conftest.py."""
    return {}


@pytest.fixture(scope="session")
def kafka_broker_session(kafka_broker_settings: Mapping[str, object]) -> Iterator[KafkaBroker]:
    """One broker for all tests; what is written stays. Most tests want kafka_broker."""
    from ottla.testing.broker import KafkaBroker

    with KafkaBroker(kafka_broker_settings) as broker:
        yield broker


@pytest.fixture
def kafka_broker(kafka_broker_session: KafkaBroker) -> Iterator[KafkaBroker]:
    """The session's broker; what the test writes is gone after it."""
    snapshot = kafka_broker_session.snapshot()
    yield kafka_broker_session
    kafka_broker_session.rollback(snapshot)


@pytest.fixture
def kafka_broker_fresh(kafka_broker_settings: Mapping[str, object]) -> Iterator[KafkaBroker]:
    """A broker that nobody else uses."""
    from ottla.testing.broker import KafkaBroker

    with KafkaBroker(kafka_broker_settings) as broker:
        yield broker


@pytest.fixture
def kafka_bootstrap(kafka_broker: KafkaBroker) -> str:
    """The address of kafka_broker, as clients want it."""
    return kafka_broker.bootstrap_servers


@pytest.fixture
def unique_topic(request: pytest.FixtureRequest) -> str:
    """A topic name that nobody else uses; the topic is made when it is first used."""
    return _unique(request, "topic")


@pytest.fixture
def unique_group(request: pytest.FixtureRequest) -> str:
    """A group name that nobody else uses."""
    return _unique(request, "group")


def _unique(request: pytest.FixtureRequest, kind: str) -> str:
    readable = re.sub(r"[^a-zA-Z0-9-]+", "-", request.node.name)[:80].strip("-")
    return f"{readable}-{kind}-{next(_numbers)}"


# --- pipelines ---


@pytest.fixture(scope="session")
def pipeline_test() -> Iterator[PipelineTest]:
    """`pipeline_test("pipeline.yml", {"clicks": [{"value": {...}}]})` runs a pipeline on these records, and has
    what its sinks and dead letters hold: see ottla/testing/pipelines.py."""
    from ottla.testing.pipelines import PipelineTest

    with PipelineTest() as made:
        yield made


# --- simulated clusters ---


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ottla", "Kafka by Ottla")
    group.addoption(
        "--kafka-seed",
        metavar="N",
        default=None,
        type=int,
        help="the seed of kafka_cluster; every test has one of its own by default",
    )


class ClusterMaker:
    """What the fixture kafka_cluster is: a call makes a cluster in virtual time, `real` one in real time."""

    def __init__(self, nodeid: str, asked: int | None) -> None:
        self.seed = zlib.crc32(nodeid.encode()) % 1_000_000 if asked is None else asked
        self._repeat = f"pytest '{nodeid}' --kafka-seed={self.seed}"

    # By name: the simulation stands above this room, and most who use the plugin never need it.

    def __call__(self, faults: Any = (), **options: Any) -> Any:
        simulation = import_module("ottla.simulation.for_tests")
        return simulation.FaultyCluster(self.seed, faults=faults, repeat=self._repeat, **options)

    def real(self, faults: Any = (), **options: Any) -> Any:
        simulation = import_module("ottla.simulation.real.cluster")
        return simulation.RealCluster(self.seed, faults=faults, repeat=self._repeat, **options)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> ClusterMaker:
    """`kafka_cluster(faults=("kill",), brokers=3, seconds=30)` makes a cluster in virtual time, and its `run(scenario)`
    runs an async function against it: see ottla/simulation/for_tests.py. `with kafka_cluster.real(faults=("kill",),
    seconds=10) as cluster:` has brokers in processes, for any client: see ottla/simulation/real/cluster.py."""
    return ClusterMaker(request.node.nodeid, request.config.getoption("--kafka-seed"))
