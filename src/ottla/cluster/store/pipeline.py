"""Decisions whose commits are on their way: the next is made on the image that the ones before it will give.

    image, number = pipeline.newest, pipeline.begin(after, reply)      # decided on `newest`, written as that number
    pipeline.seen(reply)                                               # decided on `newest`, changes nothing
    for reply in pipeline.committed(number): ...                       # true now, oldest first
    for reply in pipeline.failed(number): ...                          # never true, or nobody here knows

1. A decision that waited for the commit before it would cost a write and a round to the followers each; so it does not.
   What it was decided on is not true yet, therefore nobody hears of it before it is.
2. The log is in order. When a commit is done, so are all before it. When one fails, everything that was decided upon it
   goes too: `newest` is what it was before, and whoever asked gets the error and asks again.
3. An answer that changes nothing ("there is a topic of that name") may tell of something that is not true yet. It waits
   for the last commit that it could see, and is dropped with it.
4. Answers leave in the order in which they were decided.
5. At most `limit` commits are on their way, and at most `limit` answers wait behind each; who finds it full waits.

Nothing is awaited here: whoever owns it hears of commits from the log, and gives out what is returned.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

from ottla.light_dataclasses import dataclass, field

Image = TypeVar("Image")
Reply = TypeVar("Reply")

PENDING_LIMIT: Final = 1_000


class PipelineFull(RuntimeError):
    """A decision was begun without looking whether there is room."""


@dataclass
class _Pending(Generic[Image, Reply]):
    number: int
    image: Image
    replies: list[Reply] = field(default_factory=list)  # the one of the decision itself is the first


class CommitPipeline(Generic[Image, Reply]):
    """See above. `image` is that of everything committed so far."""

    def __init__(self, image: Image, *, limit: int = PENDING_LIMIT) -> None:
        self.image = image
        self._limit = limit
        self._pending: deque[_Pending[Image, Reply]] = deque()
        self._next_number = 1

    @property
    def newest(self) -> Image:
        """What the next decision is made on."""
        return self._pending[-1].image if self._pending else self.image

    @property
    def has_room(self) -> bool:
        if len(self._pending) >= self._limit:
            return False
        return not self._pending or len(self._pending[-1].replies) <= self._limit

    @property
    def pending_count(self) -> int:
        """Commits that are on their way."""
        return len(self._pending)

    def begin(self, after: Image, reply: Reply) -> int:
        """A decision that changes `newest` to `after`; its commit is called by the number that is returned."""
        self._check_room()
        number, self._next_number = self._next_number, self._next_number + 1
        self._pending.append(_Pending(number, after, [reply]))
        return number

    def seen(self, reply: Reply) -> list[Reply]:
        """A decision that changes nothing: what may be answered at once."""
        if not self._pending:
            return [reply]
        self._check_room()
        self._pending[-1].replies.append(reply)
        return []

    def committed(self, number: int) -> list[Reply]:
        """This commit and all before it are true: the answers that may go out."""
        done: list[Reply] = []
        while self._pending and self._pending[0].number <= number:
            pending = self._pending.popleft()
            self.image = pending.image
            done += pending.replies
        return done

    def failed(self, number: int) -> list[Reply]:
        """This commit did not become true, and nothing that was decided upon it: the answers that may not go out."""
        dropped: deque[Reply] = deque()
        while self._pending and self._pending[-1].number >= number:
            dropped.extendleft(reversed(self._pending.pop().replies))
        return list(dropped)

    def _check_room(self) -> None:
        if not self.has_room:
            raise PipelineFull(f"{len(self._pending)} commits are on their way, {self._limit} may be")
