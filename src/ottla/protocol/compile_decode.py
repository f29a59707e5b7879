"""Makes one flat decode function per (message, version).

What makes it fast, in order of gain: neighbouring values of fixed size, and the first byte of the length that follows
them, are unpacked in one call; a length below 127 is one byte and costs one comparison; nothing is called per field;
values go straight into the slots of the object. Running off the end of the buffer is left to struct and to indexing,
which raise; only slices, which would silently be shorter, are checked.

The function takes (buf, pos) and gives (message, position after it). A third argument limits the entries of all arrays
and tags together; `left` counts it down. Any exception it raises means "not a message"; compiled.py then asks the
reference codec for the sentence.
"""

import struct
from typing import Any

from ottla.protocol import codec
from ottla.protocol.primitives import NO_ENTRIES_LIMIT, STRING_BYTES_MAX, Reader
from ottla.protocol.schema import BYTES, RECORDS, STRING, ArrayOf, Field, Message, StructType, WireType
from ottla.protocol.source import FlatTag, Mismatch, Source, flat_tag, form, repeated

FAILURES = (struct.error, IndexError, UnicodeDecodeError, Mismatch)


def compile_decoder(message_class: type[Message], version: int) -> Any:
    return _Decoder(message_class, version).make()


class _Decoder:
    def __init__(self, message_class: type[Message], version: int) -> None:
        self.message_class = message_class
        self.version = version
        self.flexible = version >= message_class.flexible_since
        self.source = Source()
        self.source.names.update(new=object.__new__, long_length=long_length, long_string=long_string)
        self.waiting: list[tuple[str, str]] = []  # (target, struct letter) not unpacked yet

    def make(self) -> Any:
        source = self.source
        source.add(f"def decode(buf, pos, left={NO_ENTRIES_LIMIT}):")
        source.depth = 1
        source.add("end = len(buf)")
        source.add("view = memoryview(buf)")
        self.struct("message", self.message_class)
        self.unpack()
        source.add("return message, pos")
        return source.compile("decode", f"decode {self.message_class.__name__} {self.version}")

    # -- structs ------------------------------------------------------------------------------------------------------

    def struct(self, target: str, struct_class: StructType) -> None:
        self.source.add(f"{target} = new({self.source.constant('class', struct_class)})")
        for field in struct_class.fields:
            slot = f"{target}.{field.name}"
            if self.version not in field.present or field.tag is not None:
                self.source.add(f"{slot} = {self.default(field)}")
            else:
                self.field(slot, field)
        self.source.add(f"{target}.unknown_tags = None")
        if self.flexible:
            self.tags(target, struct_class)

    def default(self, field: Field) -> str:
        if field.factory is list:
            return "[]"
        if field.factory is not None:
            return self.source.constant("make", field.factory) + "()"
        value = field.default
        return repr(value) if isinstance(value, int | str | bytes | None) else self.source.constant("default", value)

    def tags(self, target: str, struct_class: StructType) -> None:
        """One byte 0 nearly always, or one flat tag; anything else is left to the reference codec."""
        count = self.source.fresh("tags")
        self.wait(count, "B")
        self.unpack()
        read = self.source.constant("read_tags", _TagReader(struct_class, self.version))
        self.source.add(f"if {count}:")
        self.source.depth += 1
        if (flat := flat_tag(struct_class, self.version)) is not None:
            self.flat_tag(f"{target}.{flat.field.name}", count, flat)
            self.source.add("else:")
            self.source.depth += 1
        self.source.add(f"pos, left = {read}({target}, view, pos - 1, left)")
        self.source.depth -= 1 if flat is None else 2

    def flat_tag(self, slot: str, count: str, flat: FlatTag) -> None:
        """The tag when it is the only one and has no tags itself; what is cut off raises, as everywhere."""
        size = flat.size_bytes
        is_flat = f"buf[pos] == {flat.field.tag} and buf[pos + 1] == {size} and buf[pos + {size + 1}] == 0"
        self.source.add(f"if {count} == 1 and {is_flat}:")
        self.source.depth += 1
        self.source.add("left -= 1")
        self.source.add("if left < 0: raise Mismatch")
        letters = "".join(letter for _, letter in flat.parts)
        unpack = self.source.constant(f"unpack_{letters}", form(letters, "unpack_from"))
        targets = "".join(f"{slot}.{part.name}, " for part, _ in flat.parts)
        self.source.add(f"{targets}= {unpack}(buf, pos + 2)")  # into the default, which is an object of its own
        self.source.add(f"pos += {size + 2}")
        self.source.depth -= 1

    # -- fields -------------------------------------------------------------------------------------------------------

    def field(self, slot: str, field: Field) -> None:
        compact = self.flexible and field.compact
        nullable = field.null_at(self.version)
        kind = field.type
        if isinstance(kind, ArrayOf):
            self.array(slot, kind.element, nullable, compact)
        elif isinstance(kind, StructType):
            self.nested(slot, kind, nullable)
        elif kind.format is not None:
            self.wait(slot, kind.format)
        else:
            self.sized(slot, kind, nullable, compact)

    def wait(self, target: str, letter: str) -> None:
        self.waiting.append((target, letter))

    def unpack(self) -> None:
        """One call for everything that waits."""
        if not self.waiting:
            return
        targets = ", ".join(target for target, _ in self.waiting)
        letters = "".join(letter for _, letter in self.waiting)
        self.waiting = []
        if letters == "B":
            self.source.add(f"{targets} = buf[pos]")
            self.source.add("pos += 1")
            return
        unpack = self.source.constant(f"unpack_{letters}", form(letters, "unpack_from"))
        self.source.add(f"{targets}{'' if ',' in targets else ','} = {unpack}(buf, pos)")
        self.source.add(f"pos += {struct.calcsize('>' + letters)}")

    def length(self, letter: str, compact: bool, long: str) -> str:
        """Unpack what waits together with a length; afterwards the name holds length + 1, so 0 is null."""
        name = self.source.fresh("n")
        self.wait(name, "B" if compact else letter)
        self.unpack()
        if compact:
            self.source.add(f"if {name} > 127: {name}, pos = {long}(buf, pos - 1)")
        else:
            self.source.add(f"{name} += 1")
            self.source.add(f"if {name} < 0: raise Mismatch")
        return name

    def null_or(self, slot: str, name: str, nullable: bool) -> None:
        """Emits the null case and, if that is allowed, opens the block of the other."""
        if not nullable:
            self.source.add(f"if {name} == 0: raise Mismatch")
            return
        self.source.add(f"if {name} == 0:")
        self.source.add(f"    {slot} = None")
        self.source.add("else:")
        self.source.depth += 1

    def sized(self, slot: str, kind: WireType, nullable: bool, compact: bool) -> None:
        is_string = kind is STRING
        name = self.length("h" if is_string else "i", compact, "long_string" if is_string else "long_length")
        self.null_or(slot, name, nullable)
        self.source.add(f"stop = pos + {name} - 1")
        self.source.add("if stop > end: raise Mismatch")
        sources = {STRING: "str(buf[pos:stop], 'utf-8')", BYTES: "bytes(buf[pos:stop])", RECORDS: "view[pos:stop]"}
        self.source.add(f"{slot} = {sources[kind]}")  # type: ignore[index]
        self.source.add("pos = stop")
        self.source.depth -= nullable

    def nested(self, slot: str, kind: StructType, nullable: bool) -> None:
        target = self.source.fresh("o")
        if not nullable:
            self.unpack()
            self.struct(target, kind)
            self.unpack()
            self.source.add(f"{slot} = {target}")
            return
        there = self.source.fresh("there")
        self.wait(there, "b")
        self.unpack()
        self.source.add(f"if {there} < 0:")
        self.source.add(f"    {slot} = None")
        self.source.add("else:")
        self.source.depth += 1
        self.struct(target, kind)
        self.unpack()
        self.source.add(f"{slot} = {target}")
        self.source.depth -= 1

    # -- arrays -------------------------------------------------------------------------------------------------------

    def array(self, slot: str, element: WireType, nullable: bool, compact: bool) -> None:
        name = self.length("i", compact, "long_length")
        self.null_or(slot, name, nullable)
        least = codec.least_bytes(element, self.version, flexible=self.flexible)
        self.source.add(f"if ({name} - 1) * {least} > end - pos: raise Mismatch")
        self.source.add(f"left -= {name} - 1")
        self.source.add("if left < 0: raise Mismatch")
        if not isinstance(element, StructType | ArrayOf) and element.format is not None:
            self.fixed_elements(slot, element.format, name)
        else:
            self.elements(slot, element, name, compact)
        self.source.depth -= nullable

    def fixed_elements(self, slot: str, letter: str, name: str) -> None:
        forms = self.source.constant("forms", repeated(letter, "unpack_from"))
        ready = repeated(letter, "unpack_from").READY
        self.source.add(f"{name} -= 1")
        self.source.add(f"unpack = {forms}[{name}] if {name} < {ready} else {forms}.make({name})")
        self.source.add(f"{slot} = list(unpack(buf, pos)) if {name} else []")
        self.source.add(f"pos += {name} * {struct.calcsize('>' + letter)}")

    def elements(self, slot: str, element: WireType, name: str, compact: bool) -> None:
        items, item = self.source.fresh("items"), self.source.fresh("o")
        self.source.add(f"{slot} = {items} = []")
        self.source.add(f"for _ in range({name} - 1):")
        self.source.depth += 1
        if isinstance(element, StructType):
            self.struct(item, element)
        elif isinstance(element, ArrayOf):
            self.array(item, element.element, False, compact)
        else:
            self.sized(item, element, False, compact)
        self.unpack()
        self.source.add(f"{items}.append({item})")
        self.source.depth -= 1


class _TagReader:
    """Reads a tag section that is not empty, by the reference codec."""

    def __init__(self, struct_class: StructType, version: int) -> None:
        self.struct_class, self.version = struct_class, version

    def __call__(self, target: Any, view: memoryview, position: int, entries_left: int) -> tuple[int, int]:
        reader = Reader(view, position, entries_left)
        values: dict[str, Any] = {}
        target.unknown_tags = codec.read_tags(reader, self.struct_class, self.version, values)
        for name, value in values.items():
            setattr(target, name, value)
        return reader.position, reader.entries_left


def long_length(buf: Any, pos: int) -> tuple[int, int]:
    """A uvarint of more than one byte; returns it and the position after it. Reader.uvarint, written flat."""
    value = shift = 0
    while True:
        byte = buf[pos]
        pos += 1
        if byte < 0x80:
            value |= byte << shift
            if value > 0xFFFFFFFF:
                raise Mismatch
            return value, pos
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 28:
            raise Mismatch


def long_string(buf: Any, pos: int) -> tuple[int, int]:
    length, pos = long_length(buf, pos)
    if length - 1 > STRING_BYTES_MAX:
        raise Mismatch
    return length, pos
