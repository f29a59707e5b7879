"""The share partitions of the partitions that this broker leads: loaded when somebody fetches, kept while members do.

    led = leaders.get(key, partition)            one of them, loaded or not
    await leaders.loaded(led)                    its state is here
    await leaders.acknowledge(led, member, ...)  what a member says, answered when it is kept
    leaders.release(group, member)               a member is gone

1. What a SharePartition wants written is written one write after the other, in the background; those who wait for a
   ticket are answered when it is kept or has failed.
2. When records become available again, fetches that wait are looked at again: they wait under the share key.
3. A share partition is dropped when its partition is led elsewhere, when another leader or an administrator has changed
   its state (then it is read anew), and when no member of its group fetches here any more.
4. Locks end by one timer for each share partition.
5. Where a group begins (share.auto.offset.reset) is kept before anything is handed out: after a crash it begins at the
   same record.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ottla.broker.coordinators.share_state.state import NOT_SET, ShareKey
from ottla.broker.replication.partition import Partition
from ottla.broker.settings.group_level import reset_duration_ms, share_group_settings
from ottla.broker.settings.per_group import PerGroup
from ottla.broker.sharing.persister import KeptState, Persister, leader_error
from ottla.broker.sharing.share_partition import (
    Acknowledgement,
    Limits,
    SharePartition,
    StateBatch,
    StateWrite,
)
from ottla.broker.sharing.states import AcknowledgeType, RecordState
from ottla.broker.waiting.timer_wheel import TimerWheel
from ottla.errors import (
    BrokerError,
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    UnknownServerError,
)
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)


def still_in_log(kept: KeptState, log_end: int) -> tuple[int, list[StateBatch]]:
    """Start offset and batches of a state, as far as the log has them.

    After an unclean election the log may end before. What will be written there then are other records, of which
    nobody has said anything: they are available."""
    end = max([kept.start_offset, *(each.last + 1 for each in kept.batches)])
    found = [each._replace(last=min(each.last, log_end - 1)) for each in kept.batches if each.first < log_end]
    if end > log_end:
        found.append(StateBatch(log_end, end - 1, RecordState.AVAILABLE, 0))
    return min(kept.start_offset, log_end), found


class Led:
    """One share partition that is led here."""

    def __init__(self, key: ShareKey, partition: Partition) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.state_epoch = 0
        self.machine: SharePartition | None = None  # None until it is loaded
        self.loading: asyncio.Future[None] | None = None
        self.waiting: list[tuple[int, asyncio.Future[None]]] = []  # by ticket
        self.is_writing = False
        self.is_dropped = False
        self.error: BrokerError | None = None  # why it was dropped

    def resolve(self, up_to: int, error: BrokerError | None) -> None:
        """Answer those who wait for tickets up to this one."""
        due = [each for each in self.waiting if each[0] <= up_to]
        self.waiting = [each for each in self.waiting if each[0] > up_to]
        for _, future in due:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)


class ShareLeaders:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.persister = Persister(broker)
        self._led: dict[ShareKey, Led] = {}
        self._timers: TimerWheel[ShareKey] = TimerWheel()
        self.settings_of = PerGroup(broker, share_group_settings)
        self.said: Counter[AcknowledgeType] = Counter()  # records, by what members said of them
        self.ended_locks = 0

    def __iter__(self) -> Iterator[Led]:
        return iter(self._led.values())

    def __len__(self) -> int:
        return len(self._led)

    @property
    def in_flight_count(self) -> int:
        return sum([each.machine.in_flight_count for each in self._led.values() if each.machine is not None])

    # -- settings ----------------------------------------------------------------------------------------------------

    def limits_of(self, group_id: str) -> Limits:
        settings = self.settings_of(group_id)
        return Limits(settings.lock_ms, settings.delivery_count, settings.max_locks)

    # -- coming ------------------------------------------------------------------------------------------------------

    def find(self, key: ShareKey) -> Led | None:
        return self._led.get(key)

    def get(self, key: ShareKey, partition: Partition) -> Led:
        led = self._led.get(key)
        if led is not None and (led.partition is not partition or led.leader_epoch != partition.leader_epoch):
            self._drop(led, NotLeaderOrFollower(f"{partition.name} has another leader epoch"))
            led = None
        if led is None:
            led = self._led[key] = Led(key, partition)
        return led

    def loaded(self, led: Led) -> asyncio.Future[None]:
        """Done when the state of the share partition is here; a failure is raised to all who wait, and the next one
        tries again."""
        if led.loading is None:
            led.loading = asyncio.get_running_loop().create_future()
            self._broker.background.start(self._load(led, led.loading))
        return led.loading

    async def _load(self, led: Led, loading: asyncio.Future[None]) -> None:
        error: BrokerError | None = None
        try:
            await self._read_state(led)
        except BrokerError as refusal:
            error = leader_error(refusal)
        except Exception as failure:
            log.exception("share partition %s could not be loaded", led.key.name)
            error = UnknownServerError(str(failure))
        if error is not None:
            self._drop(led, error)
        if not loading.done():
            if error is None:
                loading.set_result(None)
            else:
                loading.set_exception(error)
                loading.exception()  # whoever waits hears of it; maybe nobody does
        self.notify(led)

    async def _read_state(self, led: Led) -> None:
        kept = await self.persister.read(led.key, led.leader_epoch)
        self._check_leads(led)
        led.state_epoch = kept.state_epoch
        begun = kept
        if kept.start_offset == NOT_SET:
            begun = kept._replace(start_offset=self._first_offset(led))
        machine = SharePartition(*still_in_log(begun, led.partition.log_end_offset))
        if begun == kept and machine.end_offset <= led.partition.log_end_offset:
            led.machine = machine
            return
        machine.rewrite()
        write = machine.next_write()
        assert write is not None, "a rewrite is something to write"
        await self.persister.write(led.key, led.state_epoch, led.leader_epoch, write)
        machine.written()
        self._check_leads(led)
        led.machine = machine

    def _check_leads(self, led: Led) -> None:
        if led.is_dropped or not led.partition.is_leader or led.partition.leader_epoch != led.leader_epoch:
            raise NotLeaderOrFollower(f"{led.partition.name} is led elsewhere now")

    def _first_offset(self, led: Led) -> int:
        reset = self.settings_of(led.key.group_id).offset_reset
        end = led.partition.end
        if reset == "earliest":
            return end.log_start_offset
        back_ms = reset_duration_ms(reset)
        if back_ms is None:
            return end.high_watermark
        found = led.partition.log.offset_for_timestamp(max(0, self._broker.clock.now_ms() - back_ms))
        return end.high_watermark if found is None else min(found.offset, end.high_watermark)

    # -- what members say --------------------------------------------------------------------------------------------

    async def acknowledge(self, led: Led, member_id: str, said: Sequence[Acknowledgement]) -> None:
        """Done when it is kept; raises why it is not."""
        if led.machine is None:
            await self.loaded(led)
        assert led.machine is not None, "it is loaded"
        limits = self.limits_of(led.key.group_id)
        ticket = led.machine.acknowledge(member_id, said, limits, self._now_ms())
        self._count(said)
        self.watch_locks(led)
        if ticket is not None:
            await self._kept(led, ticket)

    def _count(self, said: Sequence[Acknowledgement]) -> None:
        for first, last, types in said:
            if len(types) == 1:
                self.said[AcknowledgeType(types[0])] += last - first + 1
            else:
                self.said.update(map(AcknowledgeType, types))

    def _kept(self, led: Led, ticket: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        led.waiting.append((ticket, future))
        self._write(led)
        return future

    def release(self, group_id: str, member_id: str) -> None:
        """A member fetches here no more: others get what it had."""
        for led in [each for each in self._led.values() if each.key.group_id == group_id]:
            if led.machine is not None:
                led.machine.release(member_id, self.limits_of(group_id))
                self._write(led)

    # -- keeping -----------------------------------------------------------------------------------------------------

    def _write(self, led: Led) -> None:
        if led.is_writing or led.is_dropped or led.machine is None:
            return
        led.is_writing = True
        self._broker.background.start(self._write_all(led, led.machine))

    async def _write_all(self, led: Led, machine: SharePartition) -> None:
        while not led.is_dropped and (write := machine.next_write()) is not None:
            error = await self._write_once(led, write)
            if error is None:
                led.resolve(machine.written(), None)
            else:
                log.warning("the state of share partition %s could not be kept: %s", led.key.name, error)
                led.resolve(machine.write_failed(self._now_ms()), error)
            self.watch_locks(led)
            self.notify(led)
            if error is not None and not isinstance(error, CoordinatorNotAvailable):
                self._drop(led, error)
        led.is_writing = False
        self._drop_if_deserted(led)

    async def _write_once(self, led: Led, write: StateWrite) -> BrokerError | None:
        try:
            await self.persister.write(led.key, led.state_epoch, led.leader_epoch, write)
        except BrokerError as refusal:
            return leader_error(refusal)
        except Exception as failure:
            log.exception("the state of share partition %s could not be written", led.key.name)
            return UnknownServerError(str(failure))
        return None

    def notify(self, led: Led) -> None:
        """Somebody may get records now that could not before."""
        self._broker.progress.fetch_purgatory.check(led.key)

    # -- time --------------------------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return int(self._broker.clock.monotonic_ms())

    def watch_locks(self, led: Led) -> None:
        """Have a timer set for the first lock that ends."""
        due_ms = None if led.machine is None or led.is_dropped else led.machine.next_expiry_ms()
        if due_ms is None:
            self._timers.cancel(led.key)
        elif self._timers.set(led.key, due_ms):
            self._broker.deadlines.arm()

    def next_due_ms(self) -> int | None:
        return self._timers.next_due_ms()

    def expire_due(self, now_ms: float) -> None:
        for key in self._timers.pop_due(int(now_ms)):
            led = self._led.get(key)
            if led is not None and led.machine is not None:
                self.ended_locks += led.machine.expire(int(now_ms), self.limits_of(key.group_id)) is not None
                self._write(led)
                self.watch_locks(led)

    # -- going -------------------------------------------------------------------------------------------------------

    def forget(self, name: TopicPartition) -> None:
        """The partition is led elsewhere, or in another epoch: its share partitions are not here any more."""
        for led in [each for each in self._led.values() if each.partition.name == name]:
            self._drop(led, NotLeaderOrFollower(f"{name} is led elsewhere now"))

    def forget_group(self, group_id: str) -> None:
        """Nobody of the group fetches here any more."""
        for led in [each for each in self._led.values() if each.key.group_id == group_id]:
            self._drop_if_deserted(led)

    def _drop_if_deserted(self, led: Led) -> None:
        is_busy = led.is_writing or (led.loading is not None and not led.loading.done())
        if not is_busy and not self._broker.sharing.sessions.count_of(led.key.group_id):
            self._drop(led, FencedLeaderEpoch("no member fetches here"))

    def _drop(self, led: Led, error: BrokerError) -> None:
        if led.is_dropped:
            return
        led.is_dropped = True
        led.error = error
        if self._led.get(led.key) is led:
            del self._led[led.key]
            self._timers.cancel(led.key)
        for ticket, _ in list(led.waiting):
            led.resolve(ticket, error)
        self.notify(led)
