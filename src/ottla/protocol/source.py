"""Lines of Python that grow: what the two compilers share.

A generated function is kept readable on purpose: `compiled.source(Message, version)` prints it, and a traceback
through it shows its lines.
"""

import linecache
import struct
from typing import Any

from ottla.errors import OttlaError
from ottla.light_tuples import NamedTuple
from ottla.protocol.schema import UUID, Field, Primitive, StructType


class Mismatch(OttlaError):
    """A flat function met something it does not handle. The reference codec says what."""


class Source:
    """Indented lines, and the names they use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.names: dict[str, Any] = {"Mismatch": Mismatch}
        self._count = 0

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}_{self._count}"

    def constant(self, stem: str, value: Any) -> str:
        """A name for `value`; the same value keeps its name."""
        stem = stem.replace("?", "o")
        for name, known in self.names.items():
            if known is value and name.startswith(stem):
                return name
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def compile(self, function: str, title: str) -> Any:
        text = "\n".join(self.lines) + "\n"
        filename = f"<{title}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self.names)
        made = self.names[function]
        made.source = text
        return made


class RepeatedForms(list[Any]):
    """`pack` or `unpack_from` of n values of one letter, made when first asked for; n below 64 is a list access."""

    READY = 64

    def __init__(self, letter: str, method: str, lead: str = "") -> None:
        self._letter, self._method, self._lead = letter, method, lead
        super().__init__(self.make(count) for count in range(self.READY))

    def make(self, count: int) -> Any:
        repeated = self._letter * count if self._letter == "16s" else f"{count}{self._letter}"
        return getattr(struct.Struct(">" + self._lead + repeated), self._method)

    def of(self, count: int) -> Any:
        return self[count] if count < self.READY else self.make(count)


_REPEATED: dict[tuple[str, str, str], RepeatedForms] = {}


def repeated(letter: str, method: str, lead: str = "") -> RepeatedForms:
    key = letter, method, lead
    if key not in _REPEATED:
        _REPEATED[key] = RepeatedForms(letter, method, lead)
    return _REPEATED[key]


_FORMS: dict[tuple[str, str], Any] = {}


def form(letters: str, method: str) -> Any:
    """`pack` or `unpack_from` for these struct letters; the same object every time."""
    key = letters, method
    if key not in _FORMS:
        _FORMS[key] = getattr(struct.Struct(">" + letters), method)
    return _FORMS[key]


class FlatTag(NamedTuple):
    """A tagged struct of numbers, such as a follower's id and epoch in every fetch: it is packed in one call."""

    field: Field
    parts: list[tuple[Field, str]]  # with their struct letters
    size_bytes: int  # of the tag's content, which ends with a byte for the struct's own tags


def flat_tag(struct_class: StructType, version: int) -> FlatTag | None:
    """The first tagged struct of numbers at this version; None when there is none."""
    for field in struct_class.fields:
        if field.tag is None or version not in field.present or field.factory is None or field.null_at(version):
            continue
        parts = [(part, letter) for part in _parts(field) if (letter := _number_letter(part, version))]
        size_bytes = struct.calcsize(">" + "".join(letter for _, letter in parts)) + 1
        if parts and len(parts) == len(_parts(field)) and max(size_bytes, field.tag) < 0x80:
            return FlatTag(field, parts, size_bytes)
    return None


def _parts(field: Field) -> tuple[Field, ...]:
    return field.type.fields if isinstance(field.type, StructType) else ()


def _number_letter(part: Field, version: int) -> str | None:
    """How a part is packed; None for what is no number, or not always there."""
    if part.tag is not None or version not in part.present or part.type is UUID:
        return None
    return part.type.format if isinstance(part.type, Primitive) else None


# LEAD[n] is the compact length of n elements or bytes, for n below 127.
LEAD = tuple(bytes((length + 1,)) for length in range(127))
