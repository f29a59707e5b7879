"""The controller on the loop: one queue of events, one at a time; decide, commit, order, reply.

1. Every broker of a cluster stands for election; the winner reads everything, tells all brokers who is there
   and how things are (UpdateMetadata), and only then begins to decide and to order.
2. One event at a time: the next is decided when the decision before it is committed and its orders are queued.
   Events that correct what we know (PartitionStatesChanged) go first, and those that a decision asks for next.
3. A commit that is fenced (another controller was elected), or that finds no session, ends the role: channels are
   closed and who waits gets NotController. What was decided but not written, the next controller decides again.
4. A commit that met a state that somebody else had changed (StaleImage) is decided again, after what the store has
   reported since, with pauses that grow; what does not become known in STALE_LIMIT attempts is a fault in ourselves.
5. A decision that fails for a reason in ourselves is not survived: we resign, so that another broker reads everything
   again.

The owner passes the store's events on with `notify`; it registers the broker again before it notifies of SessionBack.
Calls of a store that waits for a network run on `pool`, which must have one thread for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final, TypeAlias, TypeVar, TypeVarTuple, cast

from ottla.broker.cluster.changes import P
from ottla.broker.cluster.on_pool import on_pool
from ottla.broker.observe.counts import ControllerCounts
from ottla.clock import Clock, SystemClock, Timer
from ottla.cluster.changes import ChangePartition
from ottla.cluster.controller.broker_channel import BrokerChannels, Send
from ottla.cluster.controller.controller import advanced, decide, topics_of
from ottla.cluster.controller.events import (
    Asked,
    BrokerFellBehind,
    ChangeAsked,
    ControllerEvent,
    LeaderAndIsrAnswered,
    RebalanceDue,
    ReplicasStopped,
    SettingsChanged,
    TookOver,
)
from ottla.cluster.controller.orders import Order, announcement, orders
from ottla.cluster.controller.settings_changes import affect_elections
from ottla.cluster.controller.state import ControllerRules, ControllerState, Decided
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import NO_LEADER
from ottla.cluster.store.events import (
    ConfigChanged,
    Controller,
    ControllerChanged,
    PartitionStatesChanged,
    SessionBack,
    SessionLost,
    StoreEvent,
)
from ottla.cluster.store.interface import ControllerMoved, NoSession, SharedStore, StaleImage, StoreClosed
from ottla.errors import BrokerError, NotController, RequestTimedOut, UnknownServerError
from ottla.light_dataclasses import replace
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from ottla.protocol.messages.stop_replica import StopReplicaResponse
from ottla.protocol.schema import Message

log = logging.getLogger(__name__)

WAITING_LIMIT: Final = 10_000
STALE_LIMIT: Final = 20
PAUSE_MS: Final = 20.0
LONGEST_PAUSE_MS: Final = 1_000.0
PAUSE_AFTER_FAILURE_MS: Final = 1_000.0
FIRST_CHECK_S: Final = 5.0

Reply: TypeAlias = "asyncio.Future[object]"
_Event: TypeAlias = ControllerEvent | StoreEvent
_Waiting: TypeAlias = "tuple[_Event, Reply | None]"
T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


class ControllerRole:
    """Stands for election, and is controller when it wins; see above.

    `rules` returns the settings as they are now; `check_interval_s` how often leaders are checked
    (leader.imbalance.check.interval.seconds), or None while that is off (auto.leader.rebalance.enable).
    """

    def __init__(
        self,
        broker_id: int,
        store: SharedStore,
        send: Send,
        *,
        rules: Callable[[], ControllerRules],
        pool: Executor | None = None,
        check_interval_s: Callable[[], float | None] = lambda: None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._broker_id = broker_id
        self._store = store
        self._rules = rules
        self._pool = pool
        self._check_interval_s = check_interval_s
        self.counts = ControllerCounts()
        self._controller: Controller | None = None
        self._state: ControllerState | None = None
        self._first: deque[_Waiting] = deque()
        self._queue: deque[_Waiting] = deque()
        self._something_waits = asyncio.Event()
        self._channels = BrokerChannels(
            send, self._answered, lambda broker_id, epoch: self._put(BrokerFellBehind(broker_id, epoch)), self._clock
        )
        self._task: asyncio.Task[None] | None = None
        self._check: Timer | None = None
        self._is_busy = False
        self._attempts: dict[int, int] = {}  # how often an event that waits was decided in vain, by its id()
        self._unannounced: set[str] = set()  # topics that are different from what brokers know

    # -- what others see ---------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether this broker gives orders."""
        return self._state is not None

    @property
    def controller(self) -> Controller | None:
        """Who does, as far as is known."""
        return self._controller

    @property
    def state(self) -> ControllerState | None:
        """What it knows while it is controller; for metrics and tests."""
        return self._state

    @property
    def waiting_count(self) -> int:
        """Events that wait to be decided."""
        return len(self._first) + len(self._queue)

    @property
    def is_idle(self) -> bool:
        """Nothing waits to be decided, and every order is answered."""
        is_deciding = self._is_busy or self._queue or self._first
        return not is_deciding and self._channels.is_idle

    def start(self) -> None:
        """Stand for election; the broker is registered."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"controller role of {self._broker_id}")
        self._put(SessionBack())

    def notify(self, event: StoreEvent) -> None:
        """Something the store found."""
        if isinstance(event, PartitionStatesChanged):
            self._first.appendleft((event, None))
            self._something_waits.set()
        else:
            self._put(event)

    async def ask(self, event: Asked) -> object:
        """The reply; raises a BrokerError (NotController when this broker is not controller, or not any more)."""
        if len(self._queue) >= WAITING_LIMIT:
            raise RequestTimedOut("the controller has too much to do; try again")
        reply: Reply = asyncio.get_running_loop().create_future()
        self._put(event, reply)
        return await reply

    async def submit(self, make_plan: Callable[[ClusterImage], P]) -> P:
        """As ChangeQueue.submit: the plan when its changes are true; raises the BrokerError that stopped it."""
        return cast(P, await self.ask(ChangeAsked(make_plan)))

    async def close(self) -> None:
        """End everything that runs; the office is ours until `resign`, or until the session ends."""
        if self._check is not None:
            self._check.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._deactivate()
        self._refuse_waiting()
        await self._channels.closed()

    async def resign(self) -> None:
        """Let another broker be elected now."""
        try:
            await self._call(self._store.election.resign, self._broker_id)
        except (NoSession, StoreClosed):
            log.debug("nothing to resign from: the session is over")

    # -- the queue ---------------------------------------------------------------------------------------------------

    def _put(self, event: _Event, reply: Reply | None = None) -> None:
        self._queue.append((event, reply))
        self._something_waits.set()

    async def _run(self) -> None:
        while True:
            await self._something_waits.wait()
            while self._first or self._queue:
                event, reply = (self._first or self._queue).popleft()
                self._is_busy = True
                began_ms = self._clock.monotonic_ms()
                await self._handle_safely(event, reply)
                self.counts.events.record(self._clock.monotonic_ms() - began_ms)
                self._is_busy = False
            self._something_waits.clear()

    async def _handle_safely(self, event: _Event, reply: Reply | None) -> None:
        try:
            await self._handle_with_retries(event, reply)
        except (ControllerMoved, NoSession, StoreClosed) as error:
            log.info("not controller any more: %s", error)
            await self._fail(reply, NotController())
            if isinstance(error, ControllerMoved):
                await self._clock.sleep(PAUSE_MS)
                self._first.append((SessionBack(), None))
        except Exception:
            log.exception("%s could not be carried out; the controller resigns", type(event).__name__)
            await self._fail(reply, UnknownServerError())
            await self._clock.sleep(PAUSE_AFTER_FAILURE_MS)
            self._first.append((SessionBack(), None))

    async def _handle_with_retries(self, event: _Event, reply: Reply | None) -> None:
        try:
            await self._handle(event, reply)
        except StaleImage as error:
            log.info("decided on what was not so any more, deciding again: %s", error)
            attempts = self._attempts[id(event)] = self._attempts.get(id(event), 0) + 1
            if attempts > STALE_LIMIT:
                raise RuntimeError("what others changed does not become known here") from error
            await self._clock.sleep(min(PAUSE_MS * 2 ** (attempts - 1), LONGEST_PAUSE_MS))
            self._decide_again(event, reply)
        else:
            self._attempts.pop(id(event), None)

    def _decide_again(self, event: _Event, reply: Reply | None) -> None:
        """After everything that nobody asked for: among it is what corrects the image. What is asked waits behind."""
        unasked = [each for each in self._queue if each[1] is None]
        asked = [each for each in self._queue if each[1] is not None]
        self._queue = deque([*unasked, (event, reply), *asked])

    async def _fail(self, reply: Reply | None, error: BrokerError) -> None:
        was_active = self.is_active
        self._deactivate()
        _resolve(reply, error)
        if was_active:
            await self.resign()

    async def _handle(self, event: _Event, reply: Reply | None) -> None:
        match event:
            case SessionBack() | ControllerChanged(None):
                await self._stand()
            case ControllerChanged(controller):
                self._controller = controller
                if self._state is not None and self._state.controller != controller:
                    self._deactivate()
            case SessionLost():
                self._controller = None
                self._deactivate()
            case ConfigChanged(changes):
                if self._state is not None and affect_elections(changes):
                    await self._carry_out(SettingsChanged(changes), None)
            case _:
                await self._carry_out(event, reply)

    # -- being controller --------------------------------------------------------------------------------------------

    async def _stand(self) -> None:
        controller = await self._call(self._store.election.stand, self._broker_id)
        self._controller = controller
        if controller.broker_id != self._broker_id:
            self._deactivate()
        elif self._state is None or self._state.controller != controller:
            self._deactivate()
            self._forget_events()
            self._begin(controller, await self._call(self._store.take_over))

    def _begin(self, controller: Controller, image: ClusterImage) -> None:
        log.info("broker %d is controller, epoch %d", *controller)
        self._state = ControllerState(controller, image, self._rules())
        self._channels.follow(image.brokers)
        self._channels.put(announcement(self._state))
        self._first.appendleft((TookOver(), None))
        self._set_check(FIRST_CHECK_S)

    def _deactivate(self) -> None:
        if self._state is not None:
            log.info("broker %d stops being controller, epoch %d", *self._state.controller)
        self._state = None
        self._attempts.clear()
        self._first = deque(each for each in self._first if each[1] is not None)
        self._channels.close()

    def _forget_events(self) -> None:
        """Events from before everything is read say how things were, not how they are."""
        kept = (SessionLost, SessionBack, ControllerChanged)
        self._queue = deque(each for each in self._queue if each[1] is not None or isinstance(each[0], kept))

    def _refuse_waiting(self) -> None:
        for _, reply in (*self._first, *self._queue):
            _resolve(reply, NotController())
        self._first.clear()
        self._queue.clear()

    async def _carry_out(self, event: ControllerEvent, reply: Reply | None) -> None:
        if self._state is None:
            _resolve(reply, NotController("this broker is not the controller"))
            return
        before = self._state
        state = replace(before, image=self._store.load(), rules=self._rules())
        try:
            decided = decide(state, event)
        except BrokerError as error:
            if reply is None:
                raise
            _resolve(reply, error)
            return
        began_ms = self._clock.monotonic_ms()
        image = await self._make_true(state, decided)
        self._count_elections(before.image, decided, self._clock.monotonic_ms() - began_ms)
        self._unannounced |= topics_of(before.image, image, decided.changes)
        self._adopt(before, advanced(state, decided, image), decided)
        if reply is not None:
            _resolve(reply, decided.replies[0])

    def _count_elections(self, before: ClusterImage, decided: Decided, took_ms: float) -> None:
        for change in decided.changes:
            if not isinstance(change, ChangePartition):
                continue
            topic = before.topic_by_id(change.topic_id)
            known = topic.partitions[change.index] if topic is not None else None
            leader = change.partition.leader
            if known is not None and leader not in (known.leader, NO_LEADER):
                self.counts.elections.record(took_ms)
                self.counts.unclean_elections += leader not in (*known.isr, *known.elr)

    async def _make_true(self, state: ControllerState, decided: Decided) -> ClusterImage:
        image = self._store.observe(decided.observed) if decided.observed else state.image
        self._unannounced |= topics_of(state.image, image, decided.observed)
        if not decided.changes:
            return image
        commit = partial(self._store.commit, decided.changes, controller_epoch=state.controller.epoch)
        return await self._call(commit)

    def _adopt(self, before: ControllerState, after: ControllerState, decided: Decided) -> None:
        self._state = after
        self._channels.follow(after.image.brokers)
        self._channels.put(
            orders(
                before,
                after,
                resend_partitions=decided.resend_partitions,
                resend_everything=decided.resend_everything,
                topics=self._unannounced,
            )
        )
        self._unannounced = set()
        self._first.extendleft((each, None) for each in reversed(decided.then))

    async def _call(self, function: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        """Call the store, which waits for a network."""
        return await on_pool(self._pool, function, *arguments)

    # -- answers ------------------------------------------------------------------------------------------------------

    def _answered(self, order: Order, response: Message) -> None:
        who = (order.broker_id, order.broker_epoch)
        if isinstance(response, LeaderAndIsrResponse):
            self._put(LeaderAndIsrAnswered(*who, order.request, response))  # type: ignore[arg-type]
        elif isinstance(response, StopReplicaResponse):
            self._put(ReplicasStopped(*who, order.request, response))  # type: ignore[arg-type]
        error_code = getattr(response, "error_code", 0)
        if error_code:
            log.warning("broker %d refused %s: error %d", who[0], type(order.request).__name__, error_code)

    # -- time --------------------------------------------------------------------------------------------------------

    def _set_check(self, delay_s: float) -> None:
        if self._check is not None:
            self._check.cancel()
        self._check = self._clock.call_later(delay_s * 1000, self._check_leaders)

    def _check_leaders(self) -> None:
        interval_s = self._check_interval_s()
        if self._state is None:
            return
        if interval_s is not None:
            self._put(RebalanceDue())
        self._set_check(FIRST_CHECK_S if interval_s is None else interval_s)


def _resolve(reply: Reply | None, value: object) -> None:
    """Answer the request behind the event, if there is one and it still waits."""
    if reply is None or reply.done():
        return
    if isinstance(value, BrokerError):
        reply.set_exception(value)
    else:
        reply.set_result(value)
