"""Makes one flat encode function per (message, version).

Neighbouring values of fixed size, and the one-byte length that follows them, are packed in one call; the pieces are
gathered in a list and joined once. Records are not joined: they stand in the answer as they came, between the joined
pieces, so that a writer can gather them (or send a slice of a file in their place).

The function takes a message and gives a list of buffers. What it cannot write makes it raise something; compiled.py
then asks the reference codec for the sentence.
"""

import struct
from typing import Any

from ottla.protocol import codec
from ottla.protocol.primitives import STRING_BYTES_MAX, write_uvarint
from ottla.protocol.schema import RECORDS, STRING, UUID, ArrayOf, Field, Message, StructType, WireType
from ottla.protocol.source import LEAD, Mismatch, Source, flat_tag, form, repeated

FAILURES = (struct.error, TypeError, AttributeError, ValueError, OverflowError, Mismatch)


def compile_encoder(message_class: type[Message], version: int) -> Any:
    return _Encoder(message_class, version).make()


class _Encoder:
    def __init__(self, message_class: type[Message], version: int) -> None:
        self.message_class = message_class
        self.version = version
        self.flexible = version >= message_class.flexible_since
        self.source = Source()
        self.source.names.update(
            LEAD=LEAD, long_length=long_length, long_string=long_string, write_tags=codec.write_tags
        )
        self.waiting: list[tuple[str, str]] = []  # (expression, struct letter) not packed yet

    def make(self) -> Any:
        source = self.source
        source.add("def encode(message):")
        source.depth = 1
        source.add("done = []")
        source.add("parts = []")
        source.add("add = parts.append")
        self.struct("message", self.message_class)
        self.pack()
        source.add("if parts or not done: done.append(b''.join(parts))")
        source.add("return done")
        return source.compile("encode", f"encode {self.message_class.__name__} {self.version}")

    # -- structs ------------------------------------------------------------------------------------------------------

    def struct(self, target: str, struct_class: StructType) -> None:
        for field in struct_class.fields:
            slot = f"{target}.{field.name}"
            if self.version not in field.present:
                if not field.ignorable:
                    default = self.source.constant("default", field.make_default())
                    self.source.add(f"if {slot} != {default}: raise Mismatch")
            elif field.tag is None:
                self.field(slot, field)
        if self.flexible:
            self.tags(target, struct_class)
        else:
            self.source.add(f"if {target}.unknown_tags: raise Mismatch")

    def tags(self, target: str, struct_class: StructType) -> None:
        """One byte 0 nearly always, or one flat tag; anything else is left to the reference codec."""
        tagged = [field for field in struct_class.fields if field.tag is not None and self.version in field.present]
        flat = flat_tag(struct_class, self.version)
        others = [
            self.differs(f"{target}.{field.name}", field) for field in tagged if flat is None or field != flat.field
        ]
        if flat is not None:
            others.append(f"{target}.{flat.field.name}.unknown_tags")
        waiting = list(self.waiting)
        self.source.add(f"if {' or '.join([f'{target}.unknown_tags', *others])}:")
        self.source.depth += 1
        self.pack()
        self.source.add(f"add(write_tags({target}, {self.version}))")
        self.source.depth -= 1
        if flat is not None:
            slot = f"{target}.{flat.field.name}"
            self.source.add(f"elif {self.differs(slot, flat.field)}:")
            self.source.depth += 1
            head = [("1", "B"), (str(flat.field.tag), "B"), (str(flat.size_bytes), "B")]
            values = [(f"{slot}.{part.name}", letter) for part, letter in flat.parts]
            self.waiting = [*waiting, *head, *values, ("0", "B")]
            self.pack()
            self.source.depth -= 1
        self.source.add("else:")
        self.source.depth += 1
        self.waiting = [*waiting, ("0", "B")]
        self.pack()
        self.source.depth -= 1

    def differs(self, slot: str, field: Field) -> str:
        """An expression that is true when a tagged field must be written."""
        if isinstance(field.type, StructType) and not field.null_at(self.version):
            inner = [
                f"{slot}.{part.name} != {self.source.constant('default', part.make_default())}"
                for part in field.type.fields
            ]
            return " or ".join([*inner, f"{slot}.unknown_tags"])
        return f"{slot} != {self.source.constant('default', field.make_default())}"

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
            if kind is UUID:
                self.source.add(f"if len({slot}) != 16: raise Mismatch")
            self.waiting.append((slot, kind.format))
        else:
            self.sized(slot, kind, nullable, compact)

    def pack(self, *extra: tuple[str, str]) -> None:
        """One call for everything that waits."""
        waiting = [*self.waiting, *extra]
        self.waiting = []
        if not waiting:
            return
        letters = "".join(letter for _, letter in waiting)
        if all(expression.isdigit() for expression, _ in waiting):
            packed = form(letters, "pack")(*(int(expression) for expression, _ in waiting))
            self.source.add(f"add({packed!r})")
            return
        pack = self.source.constant(f"pack_{letters}", form(letters, "pack"))
        self.source.add(f"add({pack}({', '.join(expression for expression, _ in waiting)}))")

    def length(self, name: str, letter: str, compact: bool) -> None:
        """Pack what waits together with the length in `name`."""
        if not compact:
            self.pack((name, letter))
            return
        waiting = list(self.waiting)
        self.source.add(f"if {name} < 127:")
        self.source.depth += 1
        if waiting:
            self.pack((f"{name} + 1", "B"))
        else:
            self.source.add(f"add(LEAD[{name}])")
        self.source.depth -= 1
        self.source.add("else:")
        self.source.depth += 1
        self.waiting = waiting
        self.pack()
        self.source.add(f"add({'long_string' if letter == 'h' else 'long_length'}({name}))")
        self.source.depth -= 1

    def null_or(self, value: str, slot: str, letter: str, nullable: bool, compact: bool) -> None:
        """Emits the null case, if there is one, and opens the block of the other."""
        self.source.add(f"{value} = {slot}")
        if not nullable:
            return
        waiting = list(self.waiting)
        self.source.add(f"if {value} is None:")
        self.source.depth += 1
        self.pack(("0", "B") if compact else ("-1", letter))
        self.source.depth -= 1
        self.source.add("else:")
        self.source.depth += 1
        self.waiting = waiting

    def sized(self, slot: str, kind: WireType, nullable: bool, compact: bool) -> None:
        value, size = self.source.fresh("v"), self.source.fresh("n")
        letter = "h" if kind is STRING else "i"
        self.null_or(value, slot, letter, nullable, compact)
        if kind is STRING:
            self.source.add(f"{value} = {value}.encode()")
        self.source.add(f"{size} = len({value})")
        self.length(size, letter, compact)
        if kind is RECORDS:
            self.source.add(f"if {size}:")
            self.source.add("    done.append(b''.join(parts))")
            self.source.add(f"    done.append({value})")
            self.source.add("    parts.clear()")
        else:
            self.source.add(f"add({value})")
        self.source.depth -= nullable

    def nested(self, slot: str, kind: StructType, nullable: bool) -> None:
        value = self.source.fresh("o")
        self.source.add(f"{value} = {slot}")
        if not nullable:
            self.struct(value, kind)
            return
        waiting = list(self.waiting)
        self.source.add(f"if {value} is None:")
        self.source.depth += 1
        self.pack(("-1", "b"))
        self.source.depth -= 1
        self.source.add("else:")
        self.source.depth += 1
        self.waiting = [*waiting, ("1", "b")]
        self.struct(value, kind)
        self.pack()
        self.source.depth -= 1

    # -- arrays -------------------------------------------------------------------------------------------------------

    def array(self, slot: str, element: WireType, nullable: bool, compact: bool) -> None:
        value, size = self.source.fresh("v"), self.source.fresh("n")
        self.null_or(value, slot, "i", nullable, compact)
        self.source.add(f"{size} = len({value})")
        if not isinstance(element, StructType | ArrayOf) and element.format is not None:
            if element is UUID:
                self.source.add(f"for item in {value}:")
                self.source.add("    if len(item) != 16: raise Mismatch")
            self.fixed_elements(value, size, element.format, compact)
        else:
            self.length(size, "i", compact)
            self.elements(value, element, compact)
        self.source.depth -= nullable

    def fixed_elements(self, value: str, size: str, letter: str, compact: bool) -> None:
        """Length and elements in one call when there are few."""
        ready = repeated(letter, "pack").READY
        waiting = list(self.waiting)
        lead = "B" if compact else "i"
        forms = self.source.constant("forms", repeated(letter, "pack", lead))
        self.source.add(f"if {size} < {ready}:")
        self.source.depth += 1
        self.pack()
        self.source.add(f"add({forms}[{size}]({size}{' + 1' if compact else ''}, *{value}))")
        self.source.depth -= 1
        self.source.add("else:")
        self.source.depth += 1
        self.waiting = waiting
        self.length(size, "i", compact)
        self.source.add(f"add({self.source.constant('forms', repeated(letter, 'pack'))}.make({size})(*{value}))")
        self.source.depth -= 1

    def elements(self, value: str, element: WireType, compact: bool) -> None:
        item = self.source.fresh("o")
        self.source.add(f"for {item} in {value}:")
        self.source.depth += 1
        if isinstance(element, StructType):
            self.struct(item, element)
        elif isinstance(element, ArrayOf):
            self.array(item, element.element, False, compact)
        else:
            self.sized(item, element, False, compact)
        self.pack()
        self.source.depth -= 1


def long_length(length: int) -> bytes:
    return write_uvarint(length + 1)


def long_string(length: int) -> bytes:
    if length > STRING_BYTES_MAX:
        raise Mismatch
    return write_uvarint(length + 1)
