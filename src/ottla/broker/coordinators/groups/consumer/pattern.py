"""Regular expressions over topic names, matched in linear time.

Kafka uses RE2: anybody may subscribe with a pattern, so no pattern may be able to stop the broker. Python's `re` tries
one way after the other and can be kept busy for hours by thirty characters; this matcher follows all ways at once.

    text ── Parser ──▶ tree ── _Program ──▶ instructions ── Pattern.matches ──▶ yes or no

1. The language is RE2's: no back references, no looking around; whatever we do not know is refused, never guessed.
2. Topic names have sixty-five different characters, so a set of characters is a set of these.
3. A pattern matches a whole name. What a pattern has learned (which states follow which) is kept, up to
   LEARNED_LIMIT steps, so that matching thousands of names costs one look-up per character.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from ottla.broker.coordinators.groups.consumer.pattern_parser import (
    ALPHABET,
    Alternatives,
    Assertion,
    Characters,
    Edge,
    Node,
    Parser,
    PatternError,
    Repeat,
    Sequence,
)

__all__ = ["Pattern", "PatternError"]

INSTRUCTION_LIMIT: Final = 20_000
LEARNED_LIMIT: Final = 50_000
WORD: Final = frozenset(each for each in ALPHABET if each.isalnum() or each == "_")


class _Consume(NamedTuple):
    characters: frozenset[str]
    then: int


class _Assert(NamedTuple):
    edge: Edge
    then: int


class _Split(NamedTuple):
    ways: tuple[int, ...]


class _Match(Enum):
    MATCH = 0


_Instruction: TypeAlias = _Consume | _Assert | _Split | _Match


class _Program:
    """Instructions for a tree; built from the end, so that everything knows what comes after it."""

    def __init__(self, tree: Node) -> None:
        self.instructions: list[_Instruction] = [_Match.MATCH]
        self._work = 0
        self.start = self._emit(tree, 0)

    def _add(self, instruction: _Instruction) -> int:
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def _emit(self, node: Node, then: int) -> int:
        self._work += 1
        if self._work > INSTRUCTION_LIMIT:
            raise PatternError("expression is too large")
        match node:
            case Characters(characters):
                return self._add(_Consume(characters, then))
            case Assertion(edge):
                return self._add(_Assert(edge, then))
            case Sequence(nodes):
                for each in reversed(nodes):
                    then = self._emit(each, then)
                return then
            case Alternatives(nodes):
                return self._add(_Split(tuple(self._emit(each, then) for each in nodes)))
            case Repeat():
                return self._emit_repeat(node, then)

    def _emit_repeat(self, node: Repeat, then: int) -> int:
        after = then
        if node.most is None:
            after = self._add(_Split(()))
            self.instructions[after] = _Split((self._emit(node.node, after), then))
        else:
            for _ in range(node.most - node.least):
                after = self._add(_Split((self._emit(node.node, after), then)))
        for _ in range(node.least):
            after = self._emit(node.node, after)
        return after


class _Place(NamedTuple):
    """Where all ways are between two characters: the instructions to go on with, and what was before."""

    at: frozenset[int]
    is_start: bool
    after_word: bool


class Pattern:
    def __init__(self, text: str) -> None:
        """Raises PatternError when the text is no regular expression."""
        self.text = text
        program = _Program(Parser(text).parse())
        self._instructions = program.instructions
        self._start = _Place(frozenset([program.start]), True, False)
        self._learned: dict[tuple[_Place, str], _Place] = {}

    def matches(self, name: str) -> bool:
        place = self._start
        for character in name:
            learned = self._learned.get((place, character))
            place = self._step(place, character) if learned is None else learned
            if not place.at:
                return False
        return any(self._instructions[at] is _Match.MATCH for at in self._reachable(place, None))

    def _step(self, place: _Place, character: str) -> _Place:
        after = [
            instruction.then
            for at in self._reachable(place, character)
            if isinstance(instruction := self._instructions[at], _Consume) and character in instruction.characters
        ]
        found = _Place(frozenset(after), False, character in WORD)
        if len(self._learned) >= LEARNED_LIMIT:
            self._learned.clear()
        self._learned[place, character] = found
        return found

    def _reachable(self, place: _Place, following: str | None) -> Iterable[int]:
        """All instructions that can be reached without taking a character; `following` is the next one."""
        seen = set(place.at)
        left = list(place.at)
        while left:
            instruction = self._instructions[left.pop()]
            ways: tuple[int, ...] = ()
            if isinstance(instruction, _Split):
                ways = instruction.ways
            elif isinstance(instruction, _Assert) and _holds(instruction.edge, place, following):
                ways = (instruction.then,)
            new = set(ways) - seen
            seen |= new
            left += new
        return seen


def _holds(edge: Edge, place: _Place, following: str | None) -> bool:
    is_boundary = place.after_word != (following is not None and following in WORD)
    match edge:
        case Edge.BEGIN:
            return place.is_start
        case Edge.END:
            return following is None
        case Edge.WORD:
            return is_boundary
        case Edge.NO_WORD:
            return not is_boundary
