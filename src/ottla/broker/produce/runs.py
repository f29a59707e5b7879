"""Plain produce requests that came together, whatever partitions they have: appended together, answered together.

What is simple goes a shorter path (simple.py), and so does what is plain and waits for nothing (plain.py). Here
requests may have several partitions, and what goes wrong with one of them concerns no other (append.py).

1. Taken together are those from the first on that have the same acks, wait for an answer, belong to no transaction, are
   not compressed, and write to topics that their sender is known to be allowed to write.
2. What must still be committed is waited for as in held.py (held_run.py): all answers leave when the last partition of
   the last request is committed, or cannot be any more, or its time is over.
3. Where time is counted against a quota, where time-outs differ, or where the broker stops, each request waits for
   itself (committed.py).
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from ottla.broker.produce.append import PLAIN, Appending, topic_name, traits_of
from ottla.broker.produce.choice import scan_run
from ottla.broker.produce.committed import wait_until_committed
from ottla.broker.produce.frames import Produce
from ottla.broker.produce.held_run import Added, hold_run
from ottla.broker.produce.plain import answer_plain
from ottla.broker.produce.schemas import wants_schemas
from ottla.broker.produce.simple import SimpleAnswers, answer_simple
from ottla.broker.replication.partition import ACKS_ALL, Partition
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import ENTRIES
from ottla.broker.security.needs import Need

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def answer_run(
    broker: Broker, frames: list[memoryview], position: int, context: RequestContext, may_write: Need
) -> SimpleAnswers | None:
    """Append what stands at the front of these frames, whose bodies begin at `position`, and answer it."""
    answers = answer_simple(broker, frames, position, context, may_write)
    if answers is None:
        broker.append_gathered()
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
        held = hold_run(broker, frames[: len(together)], added, context.api_version, timeout_ms)
        return _answered(added) if held is None else SimpleAnswers(len(together), b"", [], held)
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
