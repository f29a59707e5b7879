"""A real Broker in memory for tests: no network, no thread, a clock that moves when told.

    def test_a_topic_is_made(make_broker):
        broker = make_broker(**{"num.partitions": "3"})      # Kafka's names, or num_partitions=3
        answer = broker.ask(CreateTopicsRequest(...), version=7)

Requests and answers go through their bytes at that version, so that an answer that cannot be written fails the test.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest
from tests.memory_store import MemoryStore

from ottla.broker.broker import Broker
from ottla.broker.cluster.alone import AloneLink
from ottla.broker.network.processor import CloseConnection
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.dispatch import codec_of, error_response
from ottla.broker.requests.running import Background, awaited
from ottla.broker.requests.served import SERVED_APIS, handler_of
from ottla.broker.settings import BrokerSettings
from ottla.cluster import model
from ottla.cluster.features import SUPPORTED, first_features
from ottla.errors import BrokerError
from ottla.metrics import Registry
from ottla.protocol.api import api_of
from ottla.protocol.compiled import decode, encode
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records import BatchBuilder, RecordStream
from ottla.storage.directory.manager import LogManager
from ottla.testing.clock import ManualClock
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
BROKER_ID = 1
TURNS = 50
SMALL = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


class Asked:
    """A question that may have its answer already."""

    def __init__(self):
        self.is_answered = False
        self.answer = None
        self.closed_by = None

    def resolve(self, answer):
        assert not self.is_answered, "a question is answered once"
        self.is_answered, self.answer = True, answer


class MemoryBroker:
    """A Broker with all that it needs, and short ways to ask it something."""

    def __init__(self, settings, directories):
        given = {key.replace("_", ".") if "." not in key else key: str(value) for key, value in settings.items()}
        paths = [Path("/data") / str(number) for number in range(directories)]
        named = ",".join(map(str, paths))
        self.settings = BrokerSettings({**SMALL, "log.dirs": named, "broker.id": str(BROKER_ID), **given})
        self.clock = ManualClock()
        self.files = MemoryFiles()
        self.loop = asyncio.new_event_loop()
        self.logs = LogManager(
            paths,
            files=self.files,
            default_settings=self.settings.topic_defaults(),
            cluster_id=CLUSTER_ID,
            broker_id=BROKER_ID,
            random_bytes=Random(1).randbytes,
        )
        self.logs.open(self.clock.now_ms())
        self.store = MemoryStore(CLUSTER_ID, first_features())
        self.broker: Broker
        self._run(self._start)

    def _start(self):
        self.registry = Registry()
        self.broker = Broker(
            BROKER_ID,
            self.settings,
            clock=self.clock,
            image=self.store.load(),
            make_link=lambda broker: AloneLink(broker, self.store, None),
            logs=self.logs,
            pool=None,
            random=Random(2),
            registry=self.registry,
            served_apis=SERVED_APIS,
        )
        Background().start(self._join())

    async def _join(self):
        endpoint = model.Endpoint("PLAINTEXT", "localhost", 9092)
        await self.broker.link.prepare()
        await self.broker.start(model.Broker(BROKER_ID, (endpoint,), features=tuple(SUPPORTED)))

    def restart(self):
        """What a stop in order and a start with the same directories and store do."""
        self._run(self.broker.stop)
        self._run(self._start)

    def _run(self, call):
        async def run():
            given = call()
            for _ in range(TURNS):
                await asyncio.sleep(0)
            return given

        return self.loop.run_until_complete(run())

    def close(self):
        self._run(self.broker.stop)
        self.logs.close()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    # -- asking --------------------------------------------------------------------------------------------------------

    def begin(self, request, version=None, **who):
        """Ask; the answer may not be there yet."""
        api = api_of(request)
        version = api.advertised.max if version is None else version
        context = RequestContext(**{"api_version": version, "client_id": "test", "client_host": "/127.0.0.1", **who})
        read_request, write_answer = codec_of(api, version)
        read, _ = read_request(memoryview(bytearray(b"".join(map(bytes, encode(request, version))))), 0)
        asked = Asked()

        async def ask():
            try:
                answer = await awaited(handler_of(api).handle(self.broker, read, context))
            except BrokerError as error:
                asked.resolve(error_response(api, error, version))
                return
            except CloseConnection as reason:
                asked.closed_by = reason
                return
            asked.resolve(None if answer is None else _through_bytes(answer, write_answer, api.response, version))

        self._run(lambda: Background().start(ask()))
        return asked

    def ask(self, request, version=None, **who):
        """Ask, and give the answer, which must be there after some turns of the loop."""
        asked = self.begin(request, version, **who)
        if asked.closed_by is not None:
            raise asked.closed_by
        assert asked.is_answered, f"{type(request).__name__} waits"
        return asked.answer

    def later(self, duration_ms):
        """Let time pass."""
        self.clock.move(duration_ms)
        self._run(self.broker.deadlines.ring)

    def do(self, call):
        """Call something on the loop, and let it work."""
        return self._run(call)

    # -- what most tests begin with ------------------------------------------------------------------------------------

    @property
    def image(self):
        return self.broker.image

    def partition(self, topic, index=0):
        return self.broker.replicas.get(TopicPartition(topic, index))

    def create_topic(self, name, partitions=1, **configs):
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()],
        )
        answer = self.ask(CreateTopicsRequest(topics=[topic]))
        assert answer.topics[0].error_code == 0, answer
        return answer.topics[0].topic_id

    def produce(self, topic, records, partition=0, *, acks=-1, transactional_id=None, version=12):
        """The answer for one partition."""
        data = PartitionProduceData(index=partition, records=records)
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        return self.ask(request, version).responses[0].partition_responses[0]

    def fetch(self, topic, offset=0, partition=0, *, read_committed=False):
        """What a simple fetch gives of one partition."""
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=int(read_committed),
            session_id=0,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)],
                )
            ],
            forgotten_topics_data=[],
        )
        return self.ask(request, 12).responses[0].partitions[0]


def _through_bytes(answer, write_answer, kind, version):
    for name in ("responses",):
        for topic in getattr(answer, name, ()):
            for partition in getattr(topic, "partitions", ()):
                if hasattr(getattr(partition, "records", None), "read"):
                    partition.records = partition.records.read()
    return decode(kind, version, b"".join(map(bytes, write_answer(answer))))


@pytest.fixture
def make_broker():
    """make_broker(directories=1, **settings) gives a MemoryBroker; all are closed after the test."""
    made = []

    def make(directories=1, **settings):
        made.append(MemoryBroker(settings, directories))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def broker(make_broker):
    return make_broker()


@pytest.fixture
def batch():
    """batch("a", "b", producer_id=7, ...) gives the bytes of a record batch with these values."""

    def make(*values, timestamp_ms=1_700_000_000_000, key=None, **builder):
        made = BatchBuilder(**builder)
        for value in values:
            made.append(timestamp_ms, key, value.encode())
        return made.close()

    return make


@pytest.fixture
def values_of():
    """The values of all records in what a fetch gave, control records left out."""

    def read(data):
        return [
            record.value.decode() for found in RecordStream(data.records) if not found.is_control for record in found
        ]

    return read
