"""The controller of a metadata log on the loop: one queue of decisions, and answers when they are committed.

    controller.activate(quorum, image, open_transaction=False)     # this node leads the log, and its epoch is committed
    plan = await controller.change(make_plan)                      # raises the BrokerError that stopped it
    controller.resigned()                                          # it leads no more

1. One decision after the other, in the order in which they were asked for. The next one is made on the image that the
   commits on their way will give (cluster/store/pipeline.py), and nobody is answered before what he was told about is
   committed. So a round trip to the other voters costs an answer its time, and not the decisions behind it.
2. An activation first writes what there must be: the end of a transaction that was left open, what a new cluster begins
   with, who this controller is. Sessions of brokers begin anew.
3. Decisions are made on a worker thread: with a hundred thousand partitions one may take long. A decision knows at
   which offset its records will lie; where the log has grown meanwhile, it is made again.
4. When the leadership ends, everybody who waits hears NOT_CONTROLLER, and nothing that was decided is true unless the
   log has it. A controller that is behind or cut off commits nothing, so nobody hears from it what is not so.
5. Heartbeats that change nothing are answered beside the queue; that a broker lives is noted when its heartbeat
   arrives, so that a long queue fences nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final, TypeAlias, cast

from ottla.broker.cluster.changes import P
from ottla.broker.cluster.quorum.periodic_work import PeriodicTask, PeriodicWork
from ottla.broker.observe.counts import ControllerCounts
from ottla.clock import Clock
from ottla.cluster.brokers import ProducerIds, allocate_producer_ids
from ottla.cluster.changes import AlterConfig, Change, ChangePartition, RegisterController
from ottla.cluster.features import raised_kraft_version
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.batch_plans import BatchPlan, plan_of, planned
from ottla.cluster.metadata_log.writing import VersionedRecord
from ottla.cluster.model import NO_LEADER, ControllerNode, Endpoint
from ottla.cluster.quorum_controller import heartbeats, periodic
from ottla.cluster.quorum_controller.activation import abort_records, first_records, has_begun
from ottla.cluster.quorum_controller.admin_changes import admitted
from ottla.cluster.quorum_controller.directories import assign_replicas
from ottla.cluster.quorum_controller.isr_changes import alter_partitions
from ottla.cluster.quorum_controller.quorum import MetadataQuorum
from ottla.cluster.quorum_controller.registrations import register_broker, register_controller, registered_broker
from ottla.cluster.quorum_controller.rules import ControllerRules
from ottla.cluster.quorum_controller.sessions import BrokerSessions
from ottla.cluster.store.pipeline import CommitPipeline
from ottla.errors import NONE, BrokerError, NotController, OttlaError, RequestTimedOut, UnknownServerError
from ottla.light_dataclasses import dataclass, field, replace
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.protocol.messages.controller_registration import ControllerRegistrationRequest
from ottla.protocol.metadata_log.transactions import NoOpRecord

log = logging.getLogger(__name__)

WAITING_LIMIT: Final = 10_000
UNCLEAN: Final = "unclean.leader.election.enable"
UNCLEAN_TASK: Final = "unclean leader elections"
FENCING_TASK: Final = "fencing of stale brokers"
LOOK_MS: Final = 500.0
"""So often it is looked whether the process of a broker that leaves out heartbeats has ended."""
LOOKS_AT_ONCE: Final = 20


@dataclass(frozen=True, slots=True)
class Periods:
    """How often is looked at what; None is never."""

    balance_ms: float | None = 300_000
    unclean_ms: float | None = 300_000
    tokens_ms: float | None = None
    idle_ms: float | None = 500


Reply: TypeAlias = "asyncio.Future[object]"
HasEnded: TypeAlias = Callable[[Sequence[Endpoint]], Awaitable[bool]]
"""Whether nothing listens at any of these endpoints of a broker any more."""


async def _assume_alive(endpoints: Sequence[Endpoint]) -> bool:
    return False


class _Decision(NamedTuple):
    """What is to be written, changes or records that no change says, and what is answered then. Where the quorum needs
    another level before, `kraft_version` is that, and nothing else is written yet."""

    changes: Sequence[Change]
    answer: object
    records: Sequence[VersionedRecord] = ()
    kraft_version: int | None = None


@dataclass(slots=True)
class _Work:
    """A decision that waits for its turn. `appended` hears of it when it is in the log."""

    decide: Callable[[ClusterImage, int], _Decision]
    reply: Reply | None = None
    appended: Callable[[_Decision, BatchPlan], None] | None = None
    asked_ms: float = 0.0


class _Answer(NamedTuple):
    reply: Reply | None
    value: object = None
    error: BrokerError | None = None

    def resolve(self) -> None:
        if self.reply is None or self.reply.done():
            return
        if self.error is not None:
            self.reply.set_exception(self.error)
        else:
            self.reply.set_result(self.value)


class _Commit(NamedTuple):
    """One that is on its way; `seen_by` are heartbeats that were answered with what it makes true."""

    end_offset: int
    number: int
    plan: BatchPlan
    seen_by: list[_Answer]


@dataclass
class _Term:
    """One leadership."""

    quorum: MetadataQuorum
    pipeline: CommitPipeline[ClusterImage, _Answer]
    queue: deque[_Work] = field(default_factory=deque)
    commits: deque[_Commit] = field(default_factory=deque)
    has_work: asyncio.Event = field(default_factory=asyncio.Event)
    has_commits: asyncio.Event = field(default_factory=asyncio.Event)
    has_room: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    appended: int = 0  # commits so far; a sign of life is needed only when there were none


class QuorumController:
    """See the module. Belongs to the loop of its node.

    `me` is what this controller says of itself, `first` what a new cluster begins with. `show` hears of every commit,
    in order: the image, and by which changes it became that.
    """

    def __init__(
        self,
        me: ControllerNode,
        *,
        clock: Clock,
        pool: Executor | None,
        random_bytes: Callable[[int], bytes],
        rules: Callable[[], ControllerRules],
        periods: Callable[[], Periods] = Periods,
        first: Callable[[], Sequence[Change]] = tuple,
        default_min_insync: int = 1,
        has_ended: HasEnded = _assume_alive,
        show: Callable[[ClusterImage, Sequence[Change]], None] = lambda image, changes: None,
    ) -> None:
        self.me = me
        self.counts = ControllerCounts()
        self.sessions = BrokerSessions(rules().session_timeout_ms)
        self._clock = clock
        self._pool = pool
        self._random_bytes = random_bytes
        self._rules = rules
        self._periods = periods
        self._first = first
        self._default_min_insync = default_min_insync
        self._show = show
        self._has_ended = has_ended
        self._term: _Term | None = None
        self._periodic = PeriodicWork(clock, self._tasks())

    # --- what others see ----------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        return self._term is not None

    @property
    def epoch(self) -> int:
        """Of the leadership; -1 while there is none."""
        return -1 if self._term is None else self._term.quorum.epoch

    @property
    def waiting_count(self) -> int:
        """Decisions that wait to be made."""
        return 0 if self._term is None else len(self._term.queue)

    @property
    def is_idle(self) -> bool:
        """Nothing waits to be decided, or to be committed."""
        term = self._term
        return term is None or not (term.queue or term.commits)

    # --- the leadership -----------------------------------------------------------------------------------------------

    def activate(self, quorum: MetadataQuorum, image: ClusterImage, *, open_transaction: bool = False) -> None:
        """This node leads the log; `image` is of everything in it."""
        self.resigned()
        image = replace(image, controller_id=self.me.id, controller_epoch=quorum.epoch)
        term = self._term = _Term(quorum, CommitPipeline(image))
        log.info("node %d is the active controller, epoch %d", self.me.id, quorum.epoch)
        self.sessions.begin(image, self._clock.monotonic_ms())
        if open_transaction:
            self._put(term, _Work(lambda image, offset: _Decision((), None, abort_records())))
        self._put(term, _Work(self._begin_cluster))
        self._put(term, _Work(self._register_myself))
        create = asyncio.get_running_loop().create_task
        term.tasks = [
            create(self._decide_all(term), name="decisions of the controller"),
            create(self._follow_commits(term), name="commits of the controller"),
        ]
        self._periodic.start()

    def resigned(self) -> None:
        """This node does not lead any more; whoever waits hears it."""
        term, self._term = self._term, None
        if term is None:
            return
        log.info("node %d is not the active controller any more, epoch %d", self.me.id, term.quorum.epoch)
        self._periodic.stop()
        for task in term.tasks:
            task.cancel()
        error = NotController("the controller that was asked is not the active one any more")
        for work in term.queue:
            _Answer(work.reply, error=error).resolve()
        term.queue.clear()
        first = term.commits[0].number if term.commits else None
        dropped = term.pipeline.failed(first) if first is not None else []
        for answer in (*dropped, *(answer for commit in term.commits for answer in commit.seen_by)):
            answer._replace(error=error).resolve()
        term.commits.clear()

    async def close(self) -> None:
        """Nothing of it runs any more."""
        tasks = [] if self._term is None else self._term.tasks
        self.resigned()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin_cluster(self, image: ClusterImage, next_offset: int) -> _Decision:
        if has_begun(image):
            return _Decision((), None)
        first = self._first()
        return _Decision(tuple(first), None, first_records(image, first))

    def _register_myself(self, image: ClusterImage, next_offset: int) -> _Decision:
        is_known = image.controllers.get(self.me.id) == self.me
        return _Decision(() if is_known else (RegisterController(self.me),), None)

    # --- the queue ----------------------------------------------------------------------------------------------------

    def _active(self) -> _Term:
        if self._term is None:
            raise NotController("the controller that was asked is not the active one")
        return self._term

    def _put(self, term: _Term, work: _Work) -> None:
        work.asked_ms = self._clock.monotonic_ms()
        term.queue.append(work)
        term.has_work.set()

    async def _ask(
        self,
        decide: Callable[[ClusterImage, int], _Decision],
        appended: Callable[[_Decision, BatchPlan], None] | None = None,
    ) -> object:
        """The answer, when it is committed; raises the BrokerError that stopped it."""
        term = self._active()
        if len(term.queue) >= WAITING_LIMIT:
            raise RequestTimedOut("the controller has too much to do; try again")
        reply: Reply = asyncio.get_running_loop().create_future()
        self._put(term, _Work(decide, reply, appended))
        return await reply

    async def _decide_all(self, term: _Term) -> None:
        while True:
            while not term.queue:
                term.has_work.clear()
                await term.has_work.wait()
            await self._room(term)
            work = term.queue[0]
            began_ms = self._clock.monotonic_ms()
            self.counts.queued.record(began_ms - work.asked_ms)
            answer, is_waiting = await self._carry_out(term, work)
            if term is not self._term:
                _Answer(work.reply, error=NotController()).resolve()
                return
            term.queue.popleft()
            if not is_waiting:
                for ready in term.pipeline.seen(answer):
                    ready.resolve()
            self.counts.events.record(self._clock.monotonic_ms() - began_ms)

    async def _room(self, term: _Term) -> None:
        """Return when another commit may be begun."""
        while not term.pipeline.has_room:
            term.has_room.clear()
            await term.has_room.wait()

    async def _carry_out(self, term: _Term, work: _Work) -> tuple[_Answer, bool]:
        """Decide and append; the answer, and whether it waits for a commit of its own."""
        try:
            while True:
                image, next_offset = term.pipeline.newest, term.quorum.next_offset
                decision, plan = await self._decided(work, image, next_offset)
                if term is not self._term:
                    raise NotController
                if decision.kraft_version is not None:
                    self._raise_kraft_version(term, decision.kraft_version)
                    await self._room(term)
                    continue
                if not plan.batches or term.quorum.next_offset == next_offset:
                    break
            answer = _Answer(work.reply, decision.answer)
            if not plan.batches:
                if work.appended is not None:
                    work.appended(decision, plan)
                return answer, False
            end_offset = term.quorum.append(plan.batches)
        except BrokerError as error:
            return _Answer(work.reply, error=error), False
        except Exception as error:
            log.exception("a decision of the controller failed")
            return _Answer(work.reply, error=UnknownServerError(str(error))), False
        number = term.pipeline.begin(plan.image, answer)
        if work.appended is not None:
            work.appended(decision, plan)
        self._count_elections(image, plan)
        self._await_commit(term, _Commit(end_offset, number, plan, []))
        return answer, True

    def _await_commit(self, term: _Term, commit: _Commit) -> None:
        term.appended += 1
        term.commits.append(commit)
        term.has_commits.set()

    def _raise_kraft_version(self, term: _Term, level: int) -> None:
        """Raft writes it; what was decided with it is decided again behind it, on the image that has it."""
        end_offset = term.quorum.raise_kraft_version(level)
        image = replace(term.pipeline.newest, kraft_version=level, change_number=end_offset - 1)
        number = term.pipeline.begin(image, _Answer(None))
        self._await_commit(term, _Commit(end_offset, number, BatchPlan((), (), image), []))

    async def _decided(self, work: _Work, image: ClusterImage, next_offset: int) -> tuple[_Decision, BatchPlan]:
        if self._pool is None:
            return self._plan(work, image, next_offset)
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._plan, work, image, next_offset)

    def _plan(self, work: _Work, image: ClusterImage, next_offset: int) -> tuple[_Decision, BatchPlan]:
        decision = work.decide(image, next_offset)
        if decision.records:
            return decision, plan_of(image, decision.changes, [decision.records], next_offset=next_offset)
        if not decision.changes:
            return decision, BatchPlan((), (), image)
        return decision, planned(image, decision.changes, next_offset=next_offset, random_bytes=self._random_bytes)

    async def _follow_commits(self, term: _Term) -> None:
        while True:
            while not term.commits:
                term.has_commits.clear()
                await term.has_commits.wait()
            try:
                await term.quorum.committed(term.commits[0].end_offset)
            except NotController:
                if term is self._term:
                    self.resigned()
                return
            except OttlaError:
                log.exception("what the controller decided could not be committed")
                if term is self._term:
                    self.resigned()
                return
            commit = term.commits.popleft()
            answers = term.pipeline.committed(commit.number)
            self._show(commit.plan.image, commit.plan.changes)
            for answer in (*answers, *commit.seen_by):
                answer.resolve()
            term.has_room.set()

    def _count_elections(self, before: ClusterImage, plan: BatchPlan) -> None:
        for change in plan.changes:
            if not isinstance(change, ChangePartition):
                continue
            topic = before.topic_by_id(change.topic_id)
            known = None if topic is None else topic.partitions[change.index]
            leader = change.partition.leader
            if known is not None and leader not in (known.leader, NO_LEADER):
                self.counts.elections.record(0.0)
                self.counts.unclean_elections += leader not in (*known.isr, *known.elr)

    # --- what it is asked ---------------------------------------------------------------------------------------------

    async def change(self, make_plan: Callable[[ClusterImage], P]) -> P:
        """An administrator's plan, when its changes are committed."""

        def decide(image: ClusterImage, next_offset: int) -> _Decision:
            plan = make_plan(image)
            if (level := raised_kraft_version(plan.changes)) is not None:
                return _Decision((), plan, kraft_version=level)
            changes = admitted(image, plan.changes, self._rules(), default_min_insync=self._default_min_insync)
            return _Decision(changes, plan)

        return cast(P, await self._ask(decide, self._settings_appended))

    def _settings_appended(self, decision: _Decision, plan: BatchPlan) -> None:
        altered = (each for each in decision.changes if isinstance(each, AlterConfig))
        if any(name == UNCLEAN for each in altered for name, _ in each.values):
            self._periodic.run_soon(UNCLEAN_TASK)

    async def register_broker(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        is_amended = False

        def decide(image: ClusterImage, next_offset: int) -> _Decision:
            nonlocal is_amended
            registered = register_broker(
                image,
                request,
                self._rules(),
                next_offset=next_offset,
                has_live_session=lambda broker_id: self.sessions.is_live(broker_id, self._clock.monotonic_ms()),
            )
            is_amended = registered.is_amended
            answer = BrokerRegistrationResponse(error_code=NONE, broker_epoch=registered.epoch)
            return _Decision(registered.changes, answer)

        def appended(decision: _Decision, plan: BatchPlan) -> None:
            self.sessions.registered(request.broker_id, plan.image.change_number, is_amended=is_amended)

        return cast(BrokerRegistrationResponse, await self._ask(decide, appended))

    async def heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        term = self._active()
        image = term.pipeline.newest
        registered_broker(image, request.broker_id, request.broker_epoch)
        self.sessions.heard(image, request.broker_id, self._clock.monotonic_ms())
        self.sessions.of(image, request.broker_id).applied_offset = request.current_metadata_offset
        unchanged = heartbeats.answer_unchanged(image, self.sessions, request)
        if unchanged is None:
            return await self._decide_heartbeat(request)
        if term.commits:  # it may tell of what is not committed yet
            reply: Reply = asyncio.get_running_loop().create_future()
            term.commits[-1].seen_by.append(_Answer(reply, unchanged))
            await reply
        return unchanged

    async def _decide_heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        def decide(image: ClusterImage, next_offset: int) -> _Decision:
            decided = heartbeats.heartbeat(image, self.sessions, request, self._rules())
            return _Decision(decided.changes, decided)

        def appended(decision: _Decision, plan: BatchPlan) -> None:
            assert isinstance(decision.answer, heartbeats.HeartbeatDecided)
            state = decision.answer.state
            session = self.sessions.of(plan.image, request.broker_id)
            if state is heartbeats.ControlState.CONTROLLED_SHUTDOWN and session.shutdown_offset is None:
                session.shutdown_offset = plan.image.change_number
            elif state is heartbeats.ControlState.SHUTDOWN_NOW:
                self.sessions.ended(request.broker_id)

        decided = cast(heartbeats.HeartbeatDecided, await self._ask(decide, appended))
        return decided.response

    async def register_controller(self, request: ControllerRegistrationRequest) -> None:
        def decide(image: ClusterImage, next_offset: int) -> _Decision:
            change = register_controller(image, request)
            return _Decision(() if change is None else (change,), None)

        await self._ask(decide)

    async def alter_partitions(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        def decide(image: ClusterImage, next_offset: int) -> _Decision:
            plan = alter_partitions(image, request, self._rules())
            return _Decision(plan.changes, AlterPartitionResponse(error_code=NONE, topics=plan.answers))

        return cast(AlterPartitionResponse, await self._ask(decide))

    async def assign_replicas(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        def decide(image: ClusterImage, next_offset: int) -> _Decision:
            plan = assign_replicas(image, request, self._rules())
            return _Decision(plan.changes, AssignReplicasToDirsResponse(error_code=NONE, directories=plan.answers))

        return cast(AssignReplicasToDirsResponse, await self._ask(decide))

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        def decide(image: ClusterImage, next_offset: int) -> _Decision:
            registered_broker(image, request.broker_id, request.broker_epoch)
            change, block = allocate_producer_ids(image, request.broker_id, request.broker_epoch)
            return _Decision((change,), block)

        block = cast(ProducerIds, await self._ask(decide))
        return AllocateProducerIdsResponse(error_code=NONE, producer_id_start=block.first, producer_id_len=block.size)

    # --- again and again ----------------------------------------------------------------------------------------------

    def _tasks(self) -> list[PeriodicTask]:
        elect = partial(self._elect, periodic.preferred_leaders), partial(self._elect, periodic.unclean_leaders)
        return [
            PeriodicTask(FENCING_TASK, self._fencing_due_ms, self._fence_stalest),
            PeriodicTask("brokers whose process has ended", lambda: LOOK_MS, self._check_suspects),
            PeriodicTask("preferred leader elections", lambda: self._periods().balance_ms, elect[0]),
            PeriodicTask(UNCLEAN_TASK, lambda: self._periods().unclean_ms, elect[1]),
            PeriodicTask("expired delegation tokens", lambda: self._periods().tokens_ms, self._expire_tokens),
            PeriodicTask("signs of life", lambda: self._periods().idle_ms, self._show_life),
        ]

    def _fencing_due_ms(self) -> float:
        now_ms, timeout_ms = self._clock.monotonic_ms(), self.sessions.timeout_ms
        due_ms = self.sessions.next_check_ms(self._active().pipeline.newest, now_ms) - now_ms
        return min(max(due_ms + 1, 10.0), timeout_ms / 4)

    def end_session(self, broker_id: int) -> None:
        """A broker is known to be gone: fence it now, not after its time."""
        self.sessions.ended(broker_id)
        self._periodic.run_soon(FENCING_TASK)

    async def _check_suspects(self) -> bool:
        """A broker that was killed says nothing, but its machine does: whoever connects to it is refused."""
        image = self._active().pipeline.newest
        suspects = self.sessions.suspects(image, self._clock.monotonic_ms())[:LOOKS_AT_ONCE]
        brokers = [image.brokers[broker_id] for broker_id in suspects]
        ended = await asyncio.gather(*(self._has_ended(broker.endpoints) for broker in brokers))
        image, now_ms = self._active().pipeline.newest, self._clock.monotonic_ms()
        suspects = self.sessions.suspects(image, now_ms)
        for broker, has_ended in zip(brokers, ended, strict=True):
            if has_ended and broker.id in suspects and image.brokers.get(broker.id) == broker:
                self.end_session(broker.id)
            else:
                self.sessions.seen(broker.id, now_ms)
        return False

    async def _fence_stalest(self) -> bool:
        broker_id = self.sessions.stalest(self._active().pipeline.newest, self._clock.monotonic_ms())
        if broker_id is None:
            return False

        def decide(image: ClusterImage, next_offset: int) -> _Decision:
            if self.sessions.is_live(broker_id, self._clock.monotonic_ms()):
                return _Decision((), None)
            log.warning("broker %d is fenced: %s", broker_id, self.sessions.why_fenced(image, broker_id))
            return _Decision(periodic.fence_broker(image, broker_id, self._rules()), None)

        def appended(decision: _Decision, plan: BatchPlan) -> None:
            if decision.changes:
                self.sessions.ended(broker_id)

        await self._ask(decide, appended)
        return True

    async def _elect(self, elected: Callable[[ClusterImage, ControllerRules], list[Change]]) -> bool:
        rules = self._rules()

        def decide(image: ClusterImage, next_offset: int) -> _Decision:
            changes = elected(image, rules)
            return _Decision(changes, len(changes) >= rules.elections_at_once)

        return cast(bool, await self._ask(decide))

    async def _expire_tokens(self) -> bool:
        now_ms = self._clock.now_ms()
        await self._ask(lambda image, offset: _Decision(periodic.expired_tokens(image, now_ms), None))
        return False

    async def _show_life(self) -> bool:
        term = self._active()
        appended, term.appended = term.appended, 0
        if not appended:
            await self._ask(lambda image, offset: _Decision((), None, [VersionedRecord(NoOpRecord())]))
            term.appended = 0
        return False
