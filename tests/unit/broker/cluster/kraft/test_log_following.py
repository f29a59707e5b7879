"""The loops beside Raft, with a quorum that exists only here: what is shown when, and what ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
from tests.unit.cluster.raft.quorum import CLUSTER, NODES, Quorum

from ottla.broker.cluster.kraft.log_following import LogFollowing
from ottla.broker.cluster.kraft.raft_loop import RaftLoop
from ottla.cluster.metadata_log.batches import data_batch
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.model import ALL_BROKERS
from ottla.cluster.raft.fetching import Identity
from ottla.cluster.raft.log import LogLimits, MetadataLog, SnapshotRules
from ottla.cluster.raft.node import RaftNode, RaftSettings, Sent
from ottla.cluster.raft.raft import Raft
from ottla.errors import InconsistentClusterId, NotConnected
from ottla.protocol.messages.fetch import FetchResponse
from ottla.testing.clock import ManualClock
from ottla.testing.files import MemoryFiles

DATA = Path("/data")
TURNS = 40
NEVER = SnapshotRules(bytes_between=1 << 40, interval_ms=0)


class Node:
    """A broker's log, followed; time passes by hand."""

    def __init__(self, quorum: Quorum, rules: SnapshotRules = NEVER, files: MemoryFiles | None = None) -> None:
        self.quorum = quorum
        self.files = files or MemoryFiles()
        if files is None:
            self.files.make_directory(DATA)
        self.clock = ManualClock(now_ms=1_000)
        self.ended: list[Exception] = []
        self.is_reachable = True
        self.shown: list[tuple[int, object]] = []
        log = MetadataLog.open(self.files, DATA, now_ms=0, limits=LogLimits(retention_bytes=1, delete_delay_ms=1_000))
        node = RaftNode(Identity(CLUSTER, 11, b"d" * 16), bootstrap=tuple(NODES.values()))
        self.log = log
        self.following = LogFollowing(
            RaftLoop(
                Raft(self.files, log, node, RaftSettings(), Random(7), self.clock.now_ms()),
                self._ask,
                files=self.files,
                clock=self.clock,
                pool=None,
                request_timeout_ms=1_000,
                ended=self.ended.append,
            ),
            MetadataLoader(CLUSTER),
            files=self.files,
            clock=self.clock,
            snapshots=rules,
            ended=self.ended.append,
        )

    async def _ask(self, address, request, timeout_ms):
        await asyncio.sleep(0)
        answer = self.quorum.answer(Sent(address, 0, request)) if self.is_reachable else None
        if answer is None:
            raise NotConnected("nobody there")
        if isinstance(answer, FetchResponse):
            await self.clock.sleep(10)  # a leader that has nothing new holds the answer back
        return answer

    async def show(self, image, changes) -> None:
        self.shown.append((image.change_number, changes))

    async def pass_time(self, turns: int = TURNS) -> None:
        for _ in range(turns):
            await self.clock.advance(30)

    @property
    def committed(self) -> str | None:
        """What the quorum wrote last, as this node sees it."""
        return self.following.image.config(ALL_BROKERS).get("x")


@pytest.fixture
def quorum() -> Quorum:
    made = Quorum(Random(7))
    made.elect()
    made.append()
    made.high_watermark = made.end_offset
    return made


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(work())  # type: ignore[arg-type]


def test_nothing_is_shown_before_the_first_high_watermark_is_reached(quorum: Quorum) -> None:
    async def work() -> None:
        node = Node(quorum)
        node.is_reachable = False
        node.following.start()
        waiting = asyncio.ensure_future(node.following.caught_up())
        await node.pass_time()
        assert not waiting.done()
        node.is_reachable = True
        await node.pass_time()
        assert waiting.done()
        assert node.following.applied_offset == quorum.high_watermark - 1
        await node.following.stop()

    run(work)


def test_the_first_image_is_shown_whole_and_the_next_ones_by_their_changes(quorum: Quorum) -> None:
    async def work() -> None:
        node = Node(quorum)
        node.following.start()
        await node.pass_time()
        applied: list[int] = []
        node.following.applied.append(applied.append)
        await node.following.show_to(node.show)
        first = quorum.high_watermark
        quorum.append()
        await node.pass_time()
        assert node.shown == [(first - 1, None)], "what is not committed is not shown"
        quorum.high_watermark = quorum.end_offset
        await node.pass_time()
        number, changes = node.shown[-1]
        assert number == quorum.high_watermark - 1 == applied[-1]
        assert changes, "the changes are those since the image before"
        assert node.log.flushed_offset == node.log.end_offset, "and the log is on the disk"
        await node.following.stop()

    run(work)


def test_a_wall_clock_that_is_set_back_does_not_stop_it(quorum: Quorum) -> None:
    async def work() -> None:
        node = Node(quorum)
        node.is_reachable = False
        node.following.start()
        await node.pass_time()
        node.clock.jump_wall(-3_600_000)
        node.is_reachable = True
        await node.pass_time()
        assert node.following.applied_offset == quorum.high_watermark - 1
        await node.following.stop()

    run(work)


def test_a_snapshot_that_takes_the_place_of_the_log_is_shown_as_anything(quorum: Quorum) -> None:
    async def work() -> None:
        node = Node(quorum)
        node.following.start()
        await node.pass_time()
        await node.following.show_to(node.show)
        node.is_reachable = False
        for _ in range(10):
            quorum.append()
        quorum.high_watermark = quorum.end_offset
        while quorum.log_start <= node.log.end_offset:
            quorum.make_snapshot()
        node.is_reachable = True
        await node.pass_time(200)
        assert [changes for _, changes in node.shown][1] is None
        assert node.following.applied_offset == quorum.high_watermark - 1
        await node.following.stop()

    run(work)


def test_snapshots_are_made_after_so_many_bytes_and_the_next_start_begins_with_the_newest(quorum: Quorum) -> None:
    async def work() -> None:
        rules = SnapshotRules(bytes_between=200, interval_ms=0)
        node = Node(quorum, rules)
        node.following.start()
        for _ in range(30):
            quorum.append()
            quorum.high_watermark = quorum.end_offset
            await node.pass_time(3)
        log = node.log
        assert len(log.snapshots) == 1, "older ones are too much, and go"
        assert log.start_offset == log.newest_snapshot.end_offset > 0
        await node.pass_time()
        assert not [name for name in node.files.list_directory(log.directory) if name.endswith(".deleted")]
        image = node.following.image
        await node.following.stop()
        again = Node(quorum, rules, node.files)
        again.is_reachable = True
        again.following.start()
        await again.pass_time()
        assert again.following.image == image
        assert not again.ended
        await again.following.stop()

    run(work)


def test_a_record_that_is_not_known_ends_it_and_says_so_once(quorum: Quorum) -> None:
    async def work() -> None:
        node = Node(quorum)
        node.following.start()
        await node.pass_time()
        await node.following.show_to(node.show)
        unknown = bytes((1, 99, 0))
        quorum._append(data_batch([unknown], base_offset=quorum.end_offset, epoch=quorum.epoch, timestamp_ms=0), 1)
        quorum.high_watermark = quorum.end_offset
        await node.pass_time()
        (error,) = node.ended
        assert "99" in str(error)
        assert len(node.shown) == 1, "nothing of it was shown"
        await node.following.stop()

    run(work)


def test_controllers_of_another_cluster_end_the_start_with_a_sentence(quorum: Quorum) -> None:
    async def work() -> None:
        node = Node(quorum)

        async def foreign(address, request, timeout_ms):
            return FetchResponse(error_code=InconsistentClusterId.code, responses=[])

        node.following.quorum._ask = foreign
        node.following.start()
        with pytest.raises(InconsistentClusterId, match="another cluster"):
            await node.following.caught_up()
        await node.following.stop()

    run(work)
