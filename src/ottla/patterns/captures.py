"""What the groups of a pattern matched, as Java and Perl say it, without ways that explode.

The ways through the pattern are tried one after the other, the preferred one first, so the first that fits is the one
Java finds. A place in the text is never tried twice with the same step: if it did not fit once it never will. So the
work is at most steps times characters, and beside that bounded by WORK_LIMIT.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from ottla.errors import InvalidRegularExpression
from ottla.light_tuples import NamedTuple
from ottla.patterns.patterns import holds
from ottla.patterns.syntax import Chars, Choice, Group, Matches, Node, Place, Repeat, Sequence, parse

STEPS_LIMIT: Final = 2_000
WORK_LIMIT: Final = 500_000

Spans: TypeAlias = tuple[int, ...]
"""Begin and end of the whole match, of group 1, of group 2 …; -1 where a group has matched nothing."""


class TooMuchWork(Exception):
    """The text cannot be matched within WORK_LIMIT."""


class Step(NamedTuple):
    """Eat a character that matches, hold a place, note a position, or (nothing of these) try the ways in order."""

    ways: tuple[int, ...]
    matches: Matches | None = None
    place: str | None = None
    slot: int | None = None


class CapturingPattern:
    def __init__(self, pattern: str) -> None:
        """InvalidRegularExpression when the pattern cannot be read."""
        self.group_count = 0
        self._steps: list[Step] = [Step(())]
        self._begin = self._compile(parse(pattern), 0)

    def match(self, text: str) -> Spans | None:
        """The groups when all of the text matches."""
        return self._search(text, range(1), is_whole=True, work=[0])

    def find_all(self, text: str) -> list[Spans]:
        """All matches one after the other, as Java's replaceAll sees them: an empty one may follow the last."""
        found: list[Spans] = []
        work, start = [0], 0
        while start <= len(text):
            spans = self._search(text, range(start, len(text) + 1), is_whole=False, work=work)
            if spans is None:
                break
            found.append(spans)
            start = spans[1] if spans[1] > spans[0] else spans[1] + 1
        return found

    # -- matching ----------------------------------------------------------------------------------------------------

    def _search(self, text: str, starts: range, *, is_whole: bool, work: list[int]) -> Spans | None:
        tried: set[tuple[int, int]] = set()
        nothing = (-1,) * (2 * self.group_count + 2)
        for start in starts:
            waiting = [(self._begin, start, (start, *nothing[1:]))]
            while waiting:
                at, position, slots = waiting.pop()
                if (at, position) in tried:
                    continue
                tried.add((at, position))
                work[0] += 1
                if work[0] > WORK_LIMIT:
                    raise TooMuchWork
                if at == 0 and (not is_whole or position == len(text)):
                    return (slots[0], position, *slots[2:])
                waiting += self._next(self._steps[at], text, position, slots)
        return None

    @staticmethod
    def _next(step: Step, text: str, position: int, slots: Spans) -> list[tuple[int, int, Spans]]:
        """The ways on from a step, the preferred one last, because it is popped first."""
        after = text[position : position + 1]
        if step.matches is not None:
            return [(step.ways[0], position + 1, slots)] if after and step.matches(after) else []
        if step.place is not None and not holds(step.place, text[position - 1 : position] if position else "", after):
            return []
        if step.slot is not None:
            slots = (*slots[: step.slot], position, *slots[step.slot + 1 :])
        return [(way, position, slots) for way in reversed(step.ways)]

    # -- making ------------------------------------------------------------------------------------------------------

    def _add(self, step: Step) -> int:
        if len(self._steps) >= STEPS_LIMIT:
            raise InvalidRegularExpression(f"expression is too large: over {STEPS_LIMIT} steps, make it smaller")
        self._steps.append(step)
        return len(self._steps) - 1

    def _compile(self, node: Node, after: int) -> int:
        """Add the steps of a node that goes on at `after`; returns where it begins."""
        if isinstance(node, Chars):
            return self._add(Step((after,), matches=node.matches))
        if isinstance(node, Place):
            return self._add(Step((after,), place=node.kind))
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                after = self._compile(part, after)
            return after
        if isinstance(node, Choice):
            return self._add(Step(tuple(self._compile(part, after) for part in node.parts)))
        if isinstance(node, Group):
            self.group_count = max(self.group_count, node.number)
            end = self._add(Step((after,), slot=2 * node.number + 1))
            return self._add(Step((self._compile(node.part, end),), slot=2 * node.number))
        return self._compile_repeat(node, after)

    def _compile_repeat(self, node: Repeat, after: int) -> int:
        begin = after
        if node.most is None:
            begin = self._add(Step(()))
            self._steps[begin] = self._either(self._compile(node.part, begin), after, node)
        for _ in range((node.most or node.least) - node.least):
            begin = self._add(self._either(self._compile(node.part, begin), after, node))
        for _ in range(node.least):
            begin = self._compile(node.part, begin)
        return begin

    @staticmethod
    def _either(once_more: int, after: int, node: Repeat) -> Step:
        return Step((after, once_more) if node.is_lazy else (once_more, after))
