"""Plain produce requests that came together, whatever partitions they have: appended together, answered together.

What is simple goes a shorter path (simple.py), and so does what is plain and waits for nothing (plain.py). Here
requests may have several partitions, and what goes wrong with one of them concerns no other (append.py).

1. Taken together are those from the first on that have the same acks, wait for an answer, belong to no transaction, are
   not compressed, and write to topics that their sender is known to be allowed to write.
2. What must still be committed is waited for as in held.py: the answers are written at once and held back, without a
   coroutine and a future for each. All of them leave when the last partition of the last request is committed, or
   cannot be any more, or its time is over; then what was refused is written anew.
3. Where time is counted against a quota, where time-outs differ, or where the broker stops, each request waits for
   itself (committed.py).
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.network.held import HeldAnswers
from ottla.broker.produce.append import PLAIN, Appending, topic_name, traits_of
from ottla.broker.produce.choice import scan_run, write_run
from ottla.broker.produce.committed import Uncommitted, count_unacknowledged, wait_until_committed
from ottla.broker.produce.frames import Produce, ProduceResults
from ottla.broker.produce.held import frames_of
from ottla.broker.produce.plain import answer_plain
from ottla.broker.produce.schemas import wants_schemas
from ottla.broker.produce.simple import SimpleAnswers, answer_simple
from ottla.broker.replication.partition import ACKS_ALL, Partition
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import ENTRIES
from ottla.broker.security.needs import Need
from ottla.broker.waiting.next_turn import NextTurn
from ottla.errors import RequestTimedOut

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Added: TypeAlias = list[tuple[ProduceResults, list[Uncommitted]]]


def answer_run(
    broker: Broker, frames: list[memoryview], position: int, context: RequestContext, may_write: Need
) -> SimpleAnswers | None:
    """Append what stands at the front of these frames, whose bodies begin at `position`, and answer it."""
    answers = answer_simple(broker, frames, position, context, may_write)
    if answers is None:
        answers = answer_plain(broker, frames, position, context, may_write)
    if answers is not None:
        return answers
    requests = scan_run(context.api_version, ENTRIES, frames, position)
    return _append(broker, frames, requests, context, may_write) if requests else None


def are_writable(broker: Broker, request: Produce, known: Set[str]) -> bool:
    """Whether all topics are known to be writable, by their names or their ids."""
    for topic, _ in request.topics:
        name = topic if type(topic) is str else topic_name(broker, topic)
        if name not in known:
            return False
    return True


def _append(
    broker: Broker, frames: list[memoryview], requests: list[Produce], context: RequestContext, may_write: Need
) -> SimpleAnswers | None:
    together = _alike(broker, requests, context, may_write)
    if not together:
        return None
    appending = Appending(broker, together[0].acks, context)
    added = [appending.add(request) for request in together]
    appending.append()
    if not any(uncommitted for _, uncommitted in added):
        return _answered(added)
    timeout_ms = together[0].timeout_ms
    is_alike = all(request.timeout_ms == timeout_ms for request in together)
    if context.charges is None and is_alike and not broker.progress.commits.is_closed:
        return _hold(broker, frames[: len(together)], added, context.api_version, timeout_ms)
    waiting = zip(added, together, strict=True)
    each = [wait_until_committed(broker, *of_one, request.timeout_ms) for of_one, request in waiting]
    return SimpleAnswers(len(together), b"", each)


def _answered(added: Added) -> SimpleAnswers:
    """Nothing has to be waited for."""
    return SimpleAnswers(len(added), b"", [answers for answers, _ in added])


def _alike(broker: Broker, requests: list[Produce], context: RequestContext, may_write: Need) -> list[Produce]:
    """Those from the first on that go together."""
    acks = requests[0].acks
    if acks not in (ACKS_ALL, 1):
        return []
    known = may_write.remembered(broker, context) if broker.access.is_on else None
    found: list[Produce] = []
    for request in requests:
        if request.acks != acks or request.transactional_id is not None or traits_of(request) is not PLAIN:
            break
        if Partition.some_check_schemas and wants_schemas(broker, request):
            break
        if known is not None and not are_writable(broker, request, known):
            break
        found.append(request)
    return found


# -- answers that are held back --------------------------------------------------------------------------------------


class HeldRun(HeldAnswers):
    """The answers of a run, until the last of its partitions is committed."""

    __slots__ = ("_answers", "_left", "_next_turn", "_uncommitted", "_version")

    def __init__(
        self,
        content: bytes,
        request_bytes: list[int],
        answers: list[ProduceResults],
        uncommitted: list[Uncommitted],
        version: int,
        next_turn: NextTurn,
    ) -> None:
        super().__init__(content, request_bytes)
        self._answers = answers
        self._uncommitted = uncommitted
        self._version = version
        self._next_turn = next_turn
        self._left = 0

    def wait_for(self, broker: Broker, waiting: list[Uncommitted], deadline_ms: float) -> None:
        self._left = len(waiting)
        for each in waiting:
            broker.progress.commits.hold(each, deadline_ms, _HeldPart(self, each))

    def resolved(self) -> None:
        """One of its partitions is over."""
        self._left -= 1
        if not self._left:
            self._next_turn.add(self._let_go)

    def count_failure(self, broker: Broker, count: int) -> None:
        for each in self._uncommitted:
            if each.outcome.error is not None:
                count_unacknowledged(broker, each.partition.name.topic, each.outcome.error)

    def _let_go(self) -> None:
        if any(each.outcome.error is not None for each in self._uncommitted):
            self.content = write_run(self._version, frames_of(self.content), self._answers)
        if self.counted is not None:
            self.counted()
        self.leave(self.content)


class _HeldPart:
    """What one request wrote to one partition; resolved as a future would be."""

    __slots__ = ("_held", "_is_done", "_uncommitted")

    def __init__(self, held: HeldRun, uncommitted: Uncommitted) -> None:
        self._held = held
        self._uncommitted = uncommitted
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    def set_result(self, is_over: bool) -> None:
        """It is committed or cannot be any more; False when the time is over."""
        self._is_done = True
        if not is_over:
            self._uncommitted.outcome.refuse(RequestTimedOut())
        self._held.resolved()


def _hold(
    broker: Broker,
    frames: list[memoryview],
    added: Added,
    version: int,
    timeout_ms: int,
) -> SimpleAnswers:
    """These answers, in line for the commits of what they say was appended."""
    answers = [each for each, _ in added]
    uncommitted = [each for _, of_one in added for each in of_one]
    waiting = [each for each in uncommitted if not each.is_over()]
    if not waiting:
        for each in uncommitted:
            if each.outcome.error is not None:
                count_unacknowledged(broker, each.partition.name.topic, each.outcome.error)
        return _answered(added)
    progress = broker.progress
    content, sizes = write_run(version, frames, answers), [len(frame) for frame in frames]
    held = HeldRun(content, sizes, answers, uncommitted, version, progress.next_turn)
    held.wait_for(broker, waiting, broker.clock.monotonic_ms() + timeout_ms)
    return SimpleAnswers(len(added), b"", [], held)
