"""Patterns of clients, matched in time that grows with the text and not with the pattern's malice.

A pattern is a list of steps. Matching follows all states through it at once, character by character, and remembers for
every set of states and character which set comes next (a deterministic automaton, made as far as it is needed). So the
second and all later characters of a kind cost one look into a dictionary, and no pattern can make a match explode, as
it can with a matcher that goes back.

1. The whole text must match.
2. Every state that is looked at while a move is made is spent from a budget (budget.py), and a match can be made in
   pieces of PIECE_STEPS, so that whoever matches for strangers holds nobody up: a move costs up to thousands of states.
3. STEPS_LIMIT steps at most, REPEATED_LIMIT of them in repeats (these can all be alive at every character, and so say
   what a character may cost), made in WORK_LIMIT turns.
4. The remembered moves are dropped when they hold MEMORY_LIMIT states, because a pattern can be made whose every move
   has thousands of them.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from ottla.budget import Budget
from ottla.errors import InvalidRegularExpression
from ottla.light_tuples import NamedTuple
from ottla.patterns.syntax import WORD, Chars, Choice, Group, Matches, Node, Place, Repeat, Sequence, parse

STEPS_LIMIT: Final = 10_001  # a pattern of literals alone may be as long as the syntax allows
REPEATED_LIMIT: Final = 2_000
WORK_LIMIT: Final = 20_000  # repeats of nothing add no steps, but take time
MEMORY_LIMIT: Final = 100_000
MATCH_STEPS: Final = 200_000  # of one text, for who does not say how many
PIECE_STEPS: Final = 5_000  # one or two milliseconds


class Step(NamedTuple):
    """Eat a character that matches, hold a place, or (neither) go on in every way of `states`."""

    states: tuple[int, ...]
    matches: Matches | None = None
    place: str | None = None


def compile_pattern(pattern: str) -> Automaton:
    """InvalidRegularExpression when the pattern cannot be read."""
    return Automaton(parse(pattern))


def search_pattern(pattern: str) -> Automaton:
    """The same for a pattern that may match anywhere in the text."""
    anything = Repeat(Chars(_anything), 0, None)
    return Automaton(Sequence((anything, parse(pattern), anything)))


def _anything(char: str) -> bool:
    return True


class Automaton:
    def __init__(self, node: Node) -> None:
        self._steps: list[Step] = []
        self._work = 0
        self._repeats = 0  # around the node that is being compiled
        self._repeated = 0  # steps in repeats
        self._end = self._add(Step(()))
        self._begin = self._compile(node, self._end)
        self._moves: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}
        self._sets: dict[frozenset[int], frozenset[int]] = {}
        self._remembered = 0  # states in all moves, and one for every move itself

    def matches(self, text: str, budget: Budget | None = None) -> bool:
        """Whether all of the text matches; BudgetExceeded when that takes too many steps."""
        pieces = self.match_in_pieces(text, budget or Budget(MATCH_STEPS, "matching the expression"))
        while True:
            try:
                next(pieces)
            except StopIteration as end:
                return bool(end.value)

    def match_in_pieces(self, text: str, budget: Budget) -> Generator[None, None, bool]:
        """The same, with a pause wherever PIECE_STEPS are used up."""
        states, before = frozenset((self._begin,)), ""
        steps = 0
        for char in (*text, ""):  # the end of the text is a move too: what it reaches is remembered as any other
            key = (states, _kind(before), char)
            found = self._moves.get(key)
            steps += 1
            if found is None:
                left = budget.left
                found = self._move(states, before, char, budget)
                self._remember(key, found)
                steps += left - budget.left
            if not found:
                return False
            if steps >= PIECE_STEPS:
                steps = 0
                yield
            states, before = found, char
        return True

    def _remember(self, key: tuple[frozenset[int], str, str], found: frozenset[int]) -> None:
        if self._remembered >= MEMORY_LIMIT:
            self._moves.clear()
            self._sets.clear()
            self._remembered = 0
        self._moves[key] = found
        self._remembered += len(found) + 1

    # -- walking -----------------------------------------------------------------------------------------------------

    def _move(self, states: frozenset[int], before: str, char: str, budget: Budget) -> frozenset[int]:
        reached = self._reach(states, before, char, budget)
        if not char:
            return frozenset(reached & {self._end})
        steps = (self._steps[at] for at in reached)
        moved = frozenset(step.states[0] for step in steps if step.matches is not None and step.matches(char))
        return self._sets.setdefault(moved, moved)  # the same object, so that a look into the moves compares nothing

    def _reach(self, states: frozenset[int], before: str, after: str, budget: Budget) -> set[int]:
        """All steps that can be reached without eating a character, between these two ("" is outside of the text)."""
        reached: set[int] = set()
        waiting = list(states)
        while waiting:
            at = waiting.pop()
            budget.spend()
            if at in reached:
                continue
            reached.add(at)
            step = self._steps[at]
            if step.matches is None and (step.place is None or holds(step.place, before, after)):
                waiting.extend(step.states)
        return reached

    # -- making ------------------------------------------------------------------------------------------------------

    def _add(self, step: Step) -> int:
        self._repeated += self._repeats > 0
        if len(self._steps) >= STEPS_LIMIT or self._repeated > REPEATED_LIMIT:
            raise InvalidRegularExpression(
                f"expression is too large: over {STEPS_LIMIT} steps or {REPEATED_LIMIT} in repeats, make these smaller"
            )
        self._steps.append(step)
        return len(self._steps) - 1

    def _compile(self, node: Node, after: int) -> int:
        """Add the steps of a node that goes on at `after`; returns where it begins."""
        self._work += 1
        if self._work > WORK_LIMIT:
            raise InvalidRegularExpression("expression is too large: make its repeats smaller")
        if isinstance(node, Chars):
            return self._add(Step((after,), matches=node.matches))
        if isinstance(node, Place):
            return self._add(Step((after,), place=node.kind))
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                after = self._compile(part, after)
            return after
        if isinstance(node, Group):
            return self._compile(node.part, after)
        if isinstance(node, Choice):
            return self._add(Step(tuple(self._compile(part, after) for part in node.parts)))
        return self._compile_repeat(node, after)

    def _compile_repeat(self, node: Repeat, after: int) -> int:
        begin = after
        self._repeats += 1
        if node.most is None:
            begin = self._add(Step(()))
            self._steps[begin] = Step((self._compile(node.part, begin), after))
        for _ in range((node.most or node.least) - node.least):
            begin = self._add(Step((self._compile(node.part, begin), after)))
        for _ in range(node.least):
            begin = self._compile(node.part, begin)
        self._repeats -= 1
        return begin


def _kind(before: str) -> str:
    """As much of the character before as a place may ask about."""
    if before in ("", "\n"):
        return before
    return "w" if before in WORD else " "


def holds(place: str, before: str, after: str) -> bool:
    if place == "start":
        return not before
    if place == "end":
        return not after
    if place == "line_start":
        return before in ("", "\n")
    if place == "line_end":
        return after in ("", "\n")
    is_edge = (before in WORD) != (after in WORD)
    return is_edge if place == "word_edge" else not is_edge
