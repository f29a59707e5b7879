"""Several brokers against each other in one loop, without sockets and without time of its own.

    world = make_world(brokers=3, min_insync_replicas=2)     # one topic, one partition, led by broker 0
    world.produce(0, "a")                                     # at a broker; the answer comes when it comes
    world.deliver()                                           # all letters between brokers arrive, until it is quiet
    world.crash(0); world.start(0)

Brokers, handlers, fetch loops and in-sync sets are the real ones. What is made up: the network (a list of letters that
arrive, or are lost, when the test says so), the clock, the disks, and a controller of one partition that does what
Kafka's does: it elects from the in-sync set, counts epochs, and answers AlterPartition. Its orders wait in a line per
broker, because real ones are late, too.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from tests.memory_store import MemoryStore

from ottla.broker.broker import Broker
from ottla.broker.cluster.alone import AloneLink
from ottla.broker.cluster.controller_orders import ControllerOrders
from ottla.broker.replication.replication import Replication, fetch_version
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.dispatch import codec_of
from ottla.broker.requests.running import Background, awaited
from ottla.broker.requests.served import CLUSTER_APIS, handler_of
from ottla.broker.settings import BrokerSettings
from ottla.cluster import model
from ottla.cluster.changes import AlterConfig, CreateTopic, RegisterBroker, apply_all
from ottla.cluster.features import first_features
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ConfigResource, ResourceType
from ottla.errors import BrokerNotAvailable, FencedLeaderEpoch, IneligibleReplica, InvalidUpdateVersion
from ottla.metrics import Registry
from ottla.protocol.api import api_of
from ottla.protocol.compiled import decode, encode
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records import BatchBuilder, RecordStream
from ottla.storage.directory.manager import LogManager
from ottla.storage.segment.records_file import FileSlice
from ottla.testing.clock import ManualClock
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
TOPIC_ID = bytes(range(16))
ORDERS = TopicPartition("orders", 0)
CONTROLLER = -1
TURNS = 30
QUIET_LIMIT = 400


@dataclass
class Letter:
    """A request on its way; `later` has the answer when the receiver gave one that waits to arrive."""

    sender: int
    receiver: int
    request: object
    at_most: int | None
    answer: asyncio.Future
    is_handled: bool = False

    @property
    def is_open(self):
        return not self.answer.done()


class BrokerConnections:
    """inter_broker.InterBroker over the world's letters."""

    def __init__(self, world, broker_id):
        self._world = world
        self._broker_id = broker_id

    async def send(self, broker_id, request, *, timeout_ms, at_most=None):
        return await self._world.post(self._broker_id, broker_id, request, at_most)

    def start(self, broker_id, exchange, *, timeout_ms):
        return False  # letters are messages

    def forget(self, broker_id):
        for letter in self._world.letters:
            if (letter.sender, letter.receiver) == (self._broker_id, broker_id) and letter.is_open:
                letter.answer.set_exception(BrokerNotAvailable("forgotten"))

    async def sweep(self):
        pass

    async def close(self):
        pass


class NodeLink(AloneLink):
    """The link of a broker whose controller is the test."""

    is_alone = False

    def __init__(self, broker, world, node):
        super().__init__(broker, MemoryStore(CLUSTER_ID, first_features()), None)
        broker.member = SimpleNamespace(
            orders=ControllerOrders(
                broker, learn_settings=self.learn_settings, repeat=lambda: self.repeat(), take_view=lambda request: None
            ),
        )
        self.addresses = SimpleNamespace(includes=lambda address: True)  # everybody asks from the same machine
        self._node = node
        self.replication = Replication(
            broker,
            [BrokerConnections(world, node.id)],
            lambda request: world.post(node.id, CONTROLLER, request, None),
            broker_epoch=lambda: node.epoch,
            fetch_version=lambda: fetch_version(broker.settings.inter_broker_protocol_version),
        )

    @property
    def epoch(self):
        return self._node.epoch

    async def learn_settings(self, topics):
        """They are in the image."""

    def repeat(self):
        """The test says everything again by itself."""


class Node:
    """One broker's place; the files stay when the broker goes."""

    def __init__(self, world, broker_id):
        self.id = broker_id
        self.world = world
        self.files = MemoryFiles(seed=broker_id)
        self.broker = None
        self.logs = None
        self.epoch = 0
        self.orders = []

    @property
    def is_alive(self):
        return self.broker is not None

    @property
    def partition(self):
        return None if self.broker is None else self.broker.replicas.get(ORDERS)

    def start(self):
        world = self.world
        self.epoch += 1
        path = Path("/data")
        settings = BrokerSettings({**world.settings, "log.dirs": str(path), "broker.id": str(self.id)})
        self.logs = LogManager(
            [path],
            files=self.files,
            default_settings=settings.topic_defaults(),
            cluster_id=CLUSTER_ID,
            broker_id=self.id,
            random_bytes=Random(self.id).randbytes,
        )
        self.logs.open(world.clock.now_ms())
        self.broker = Broker(
            self.id,
            settings,
            clock=world.clock,
            image=apply_all(ClusterImage(CLUSTER_ID), first_features()),
            make_link=lambda broker: NodeLink(broker, world, self),
            logs=self.logs,
            pool=None,
            random=Random(self.id),
            registry=Registry(),
            served_apis=CLUSTER_APIS,
        )
        self.broker.link.replication.start()
        self.orders = []

    async def vanish(self):
        broker, self.broker = self.broker, None
        for letter in self.world.letters:
            if letter.is_open and self.id in (letter.sender, letter.receiver):
                letter.answer.set_exception(BrokerNotAvailable(f"broker {self.id} is gone"))
        await broker.link.replication.stop()
        broker.stop()


class World:
    def __init__(self, brokers=3, min_insync_replicas=2, config=(), **settings):
        self.settings = {key.replace("_", "."): str(value) for key, value in settings.items()}
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.letters = []
        self.nodes = {each: Node(self, each) for each in range(brokers)}
        everybody = tuple(range(brokers))
        self.truth = model.Partition(replicas=everybody, isr=everybody, leader=0)
        self.config = (("min.insync.replicas", str(min_insync_replicas)), *config)
        self.acknowledged = {}  # offset: value
        self.refused = []
        self.committed = []  # values of all offsets that any replica ever called committed
        self.do(self._start_all)
        self.obey()

    def _start_all(self):
        for node in self.nodes.values():
            node.start()
        self._tell(self.nodes)

    # -- the loop ------------------------------------------------------------------------------------------------------

    def do(self, call):
        async def run():
            given = call()
            if asyncio.iscoroutine(given):
                given = await given
            for _ in range(TURNS):
                await asyncio.sleep(0)
            return given

        return self.loop.run_until_complete(run())

    def close(self):
        for node in self.nodes.values():
            if node.is_alive:
                self.do(node.vanish)
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def later(self, duration_ms):
        async def advance():
            await self.clock.advance(duration_ms)
            for node in self.nodes.values():
                if node.is_alive:
                    node.broker.deadlines.ring()

        self.do(advance)

    # -- letters -------------------------------------------------------------------------------------------------------

    def post(self, sender, receiver, request, at_most):
        letter = Letter(sender, receiver, request, at_most, self.loop.create_future())
        self.letters.append(letter)
        return letter.answer

    @property
    def open_letters(self):
        self.letters = [each for each in self.letters if each.is_open]
        return [each for each in self.letters if not each.is_handled]

    def arrive(self, letter, *, answer_is_lost=False):
        """The receiver gets the letter; its answer comes back, or not."""
        letter.is_handled = True

        def back(answer):
            if not letter.is_open:
                return
            if answer_is_lost:
                letter.answer.set_exception(BrokerNotAvailable("the answer was lost"))
            else:
                letter.answer.set_result(answer)

        def handle():
            if letter.receiver == CONTROLLER:
                back(self._alter(letter.request))
            elif not self.nodes[letter.receiver].is_alive:
                letter.answer.set_exception(BrokerNotAvailable(f"broker {letter.receiver} is not there"))
            else:
                self.ask(letter.receiver, letter.request, letter.at_most, back)

        self.do(handle)

    def lose(self, letter):
        letter.is_handled = True
        self.do(lambda: letter.answer.set_exception(BrokerNotAvailable("the request was lost")))

    def deliver(self, until_quiet=True):
        """All orders and letters arrive; what waits at a leader for more waits."""
        for _ in range(QUIET_LIMIT):
            self.obey()
            letters = self.open_letters
            if not letters:
                return
            self.arrive(letters[0])
        assert not until_quiet, "letters without end"

    def settle(self):
        """Everything arrives, and time passes until nothing is new."""
        for _ in range(8):
            self.deliver()
            self.later(600)
        self.deliver()

    def ask(self, broker_id, request, at_most=None, answered=lambda answer: None):
        """Ask a broker; `answered` gets what it answers, through bytes. To be called on the loop."""
        api = api_of(request)
        version = min(api.advertised.max, at_most or api.advertised.max)
        context = RequestContext(api_version=version, client_id="test", client_host="/127.0.0.1")
        read_request, write_answer = codec_of(api, version)
        read, _ = read_request(memoryview(bytearray(b"".join(map(bytes, encode(request, version))))), 0)

        async def ask():
            answer = await awaited(handler_of(api).handle(self.nodes[broker_id].broker, read, context))
            parts = [each.read() if isinstance(each, FileSlice) else bytes(each) for each in write_answer(answer)]
            answered(decode(api.response, version, b"".join(parts)))

        Background().start(ask())

    # -- the controller ------------------------------------------------------------------------------------------------

    @property
    def live(self):
        return [each for each, node in self.nodes.items() if node.is_alive]

    @property
    def image(self):
        brokers = [
            RegisterBroker(model.Broker(each, (), epoch=self.nodes[each].epoch, rack=f"rack-{each}"))
            for each in self.live
        ]
        topic = CreateTopic(model.Topic(ORDERS.topic, TOPIC_ID, (self.truth,)))
        config = AlterConfig(ConfigResource(ResourceType.TOPIC, ORDERS.topic), self.config)
        return apply_all(apply_all(ClusterImage(CLUSTER_ID), first_features()), [*brokers, topic, config])

    def _tell(self, broker_ids):
        """The truth changed: orders wait for these brokers, and everybody's view is new."""
        image = self.image
        for broker_id, node in self.nodes.items():
            if node.is_alive:
                node.broker.image = image
                if broker_id in broker_ids:
                    node.orders.append(self._order(node.epoch))

    def _order(self, broker_epoch):
        state = LeaderAndIsrPartitionState(
            partition_index=0,
            controller_epoch=0,
            leader=self.truth.leader,
            leader_epoch=self.truth.leader_epoch,
            isr=list(self.truth.isr),
            partition_epoch=self.truth.partition_epoch,
            replicas=list(self.truth.replicas),
        )
        topic = LeaderAndIsrTopicState(topic_name=ORDERS.topic, topic_id=TOPIC_ID, partition_states=[state])
        return LeaderAndIsrRequest(
            controller_id=0, controller_epoch=0, broker_epoch=broker_epoch, topic_states=[topic], live_leaders=[]
        )

    def obey(self, broker_id=None):
        """Orders that wait are carried out, by one broker or by all."""
        for node in self.nodes.values():
            if broker_id in (None, node.id):
                while node.is_alive and node.orders:
                    order = node.orders.pop(0)
                    self.do(lambda node=node, order=order: self.ask(node.id, order))

    def _change(self, **values):
        truth = self.truth
        self.truth = replace(truth, partition_epoch=truth.partition_epoch + 1, **values)

    def _alter(self, request: AlterPartitionRequest):
        asked = request.topics[0].partitions[0]
        proposed = [each.broker_id for each in asked.new_isr_with_epochs]
        stale = any(
            each.broker_epoch not in (-1, self.nodes[each.broker_id].epoch) for each in asked.new_isr_with_epochs
        )
        code = 0
        if asked.leader_epoch != self.truth.leader_epoch or request.broker_id != self.truth.leader:
            code = FencedLeaderEpoch.code
        elif set(proposed) == set(self.truth.isr) and asked.partition_epoch <= self.truth.partition_epoch:
            pass  # it is true already: the answer was lost, and we are asked again
        elif asked.partition_epoch != self.truth.partition_epoch:
            code = InvalidUpdateVersion.code
        elif stale or any(each not in self.live for each in proposed):
            code = IneligibleReplica.code
        else:
            self._change(isr=tuple(proposed))
            self._tell(())
        answer = ResponsePartitionData(
            partition_index=0,
            error_code=code,
            leader_id=self.truth.leader,
            leader_epoch=self.truth.leader_epoch,
            isr=list(self.truth.isr),
            partition_epoch=self.truth.partition_epoch,
        )
        return AlterPartitionResponse(error_code=0, topics=[ResponseTopicData(topic_id=TOPIC_ID, partitions=[answer])])

    def elect(self, leader=None, without=()):
        """A new epoch; by default with the first live member of the in-sync set, and without those who are gone."""
        isr = tuple(each for each in self.truth.isr if each not in without) or self.truth.isr
        able = [each for each in isr if each in self.live and each not in without]
        chosen = leader if leader in able else next(iter(able), model.NO_LEADER)
        self._change(leader=chosen, isr=isr, leader_epoch=self.truth.leader_epoch + 1)
        self.do(lambda: self._tell(self.live))

    def crash(self, broker_id, *, power_fails=False):
        """The broker is gone; the controller sees it at once."""
        node = self.nodes[broker_id]
        self.do(node.vanish)
        if power_fails:
            node.files.crash("any")
        else:
            node.files.crash("everything")
        leader = None if self.truth.leader == broker_id else self.truth.leader
        self.elect(leader, without=(broker_id,))

    def start(self, broker_id):
        self.do(self.nodes[broker_id].start)
        if self.truth.leader == model.NO_LEADER:
            self.elect()
        else:
            self.do(lambda: self._tell([broker_id]))

    def register_again(self, broker_id):
        """A broker lost its session and has another one; who controls now has not seen it go, so it leads or follows
        as before."""
        self.nodes[broker_id].epoch += 1
        self.do(lambda: self._tell(()))

    # -- what clients do -----------------------------------------------------------------------------------------------

    def produce(self, broker_id, value, *, acks=-1):
        """Send a record to a broker; whether and where it was acknowledged is kept."""
        builder = BatchBuilder()
        builder.append(self.clock.now_ms(), None, value.encode())
        data = PartitionProduceData(index=0, records=builder.close())
        request = ProduceRequest(
            transactional_id=None,
            acks=acks,
            timeout_ms=60_000,
            topic_data=[TopicProduceData(name=ORDERS.topic, partition_data=[data])],
        )

        def answered(answer):
            found = answer.responses[0].partition_responses[0]
            if found.error_code:
                self.refused.append((value, found.error_code))
            elif acks == -1:
                assert self.acknowledged.setdefault(found.base_offset, value) == value
            else:
                self.refused.append((value, 0))

        self.do(lambda: self.ask(broker_id, request, 11, answered))

    def values(self, broker_id, end_offset=None):
        """The values in a replica's log, by offset; up to the high watermark, or up to an offset."""
        partition = self.nodes[broker_id].partition
        if partition is None:
            return []
        found = []
        offset, end = partition.log.log_start_offset, partition.high_watermark if end_offset is None else end_offset
        while offset < end:
            piece = partition.log.read(offset, 1 << 20, up_to="log_end").slice.read()
            for batch in RecordStream(piece):
                found += [bytes(record.value).decode() for record in batch]
                offset = batch.next_offset
        return found[:end]

    def bytes_of(self, broker_id):
        log = self.nodes[broker_id].partition.log
        return log.read(log.log_start_offset, 1 << 30, up_to="log_end").slice.read()

    def end(self, broker_id):
        return self.nodes[broker_id].partition.log_end_offset

    # -- what must hold ------------------------------------------------------------------------------------------------

    def check(self):
        """Committed is committed everywhere and for ever; who is in sync has all that was acknowledged."""
        for broker_id, node in self.nodes.items():
            if node.partition is None:
                continue
            seen = self.values(broker_id)
            known = min(len(seen), len(self.committed))
            assert seen[:known] == self.committed[:known], f"broker {broker_id} says another record is committed"
            self.committed += seen[known:]
            if broker_id in self.truth.isr:
                here = self.values(broker_id, node.partition.log_end_offset)
                for offset, value in self.acknowledged.items():
                    assert offset < len(here), f"broker {broker_id} lacks {value}, acknowledged at {offset}: {here}"
                    assert here[offset] == value, f"broker {broker_id} has {here[offset]} at {offset}, not {value}"


@pytest.fixture
def make_world():
    made = []

    def make(**options):
        made.append(World(**options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def world(make_world):
    return make_world()
