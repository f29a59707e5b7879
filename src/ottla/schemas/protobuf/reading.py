"""A place in a .proto file, word by word, and errors that name the line."""

from __future__ import annotations

from ottla.schemas.model import InvalidSchema
from ottla.schemas.protobuf.tokens import Token, line_of, string_bytes, tokens


class Reading:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens(text))
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._tokens)

    @property
    def is_at_string(self) -> bool:
        return not self.is_at_end and self._tokens[self._at].kind == "string"

    def problem(self, what: str) -> InvalidSchema:
        """The error to raise about the word before."""
        at = self._tokens[max(0, self._at - 1)].at if self._tokens else 0
        return InvalidSchema(f"line {line_of(self._text, at)}: {what}")

    def peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at].text if at < len(self._tokens) else ""

    def next(self) -> Token:
        if self.is_at_end:
            raise self.problem("the file ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def takes(self, sign: str) -> bool:
        """Whether this stands here; then it is passed."""
        if self.peek() == sign:
            self._at += 1
            return True
        return False

    def expect(self, sign: str) -> None:
        found = self.next()
        if found.text != sign:
            raise self.problem(f"{sign} is expected, not {found.text}")

    def begins_statement(self, word: str) -> bool:
        """Whether this word, which stands here, begins a statement, and is not the type of a field."""
        after = self.peek(1)
        if word in ("message", "enum", "oneof"):
            return self.peek(2) == "{"
        if word == "map":
            return after == "<"
        if word == "option":
            return after == "(" or (self.peek(2) in ("=", ".") and self.peek(3) != "")
        return not (after.isidentifier() and self.peek(2) == "=")

    def name(self) -> str:
        found = self.next()
        if found.kind != "name":
            raise self.problem(f"a name is expected, not {found.text}")
        return found.text

    def full_name(self, *, may_be_absolute: bool = False) -> str:
        made = "." if may_be_absolute and self.takes(".") else ""
        made += self.name()
        while self.takes("."):
            made += "." + self.name()
        return made

    def string(self) -> str:
        return self.string_bytes().decode(errors="replace")

    def string_bytes(self) -> bytes:
        """One string, or several that stand beside each other."""
        found = self.next()
        if found.kind != "string":
            raise self.problem(f"a string is expected, not {found.text}")
        made = string_bytes(found.text)
        while self.is_at_string:
            made += string_bytes(self.next().text)
        return made

    def number(self, limit: int, *, may_be_negative: bool = False) -> int:
        is_negative = may_be_negative and self.takes("-")
        found = self.next()
        try:
            value = int(
                found.text, 8 if len(found.text) > 1 and found.text[1:].isdigit() and found.text[0] == "0" else 0
            )
        except ValueError:
            raise self.problem(f"a whole number is expected, not {found.text}") from None
        if value > limit + is_negative:
            raise self.problem(f"{value} is more than {limit}")
        return -value if is_negative else value

    def number_range(self, limit: int, *, may_be_negative: bool = False) -> tuple[int, int]:
        """`3`, `3 to 5` or `3 to max`: both ends are inside."""
        start = self.number(limit, may_be_negative=may_be_negative)
        if self.peek() != "to":
            return start, start
        self.name()
        if self.peek() == "max":
            self.name()
            return start, limit
        return start, self.number(limit, may_be_negative=may_be_negative)
