"""Options of a .proto file: `option java_package = "x";` and `[deprecated = true, (mine).part = {a: 1}]`.

Those that descriptors know become attributes; all others are kept as uninterpreted options.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.light_tuples import NamedTuple
from ottla.schemas.protobuf.reading import Reading

_CLOSING: Final = {"{": "}", "<": ">", "[": "]"}


class _Value(NamedTuple):
    kind: str  # name, number, string or aggregate
    text: str
    content: bytes = b""


class Options:
    def __init__(self, reading: Reading) -> None:
        self._read = reading

    def statement(self, options: Any) -> None:
        """Behind the word option, to the semicolon."""
        self._one(options)
        self._read.expect(";")

    def of_value(self, options: Any) -> None:
        """A list in brackets, if there is one."""
        if not self._read.takes("["):
            return
        while True:
            self._one(options)
            if not self._read.takes(","):
                break
        self._read.expect("]")

    def of_field(self, field: Any) -> None:
        """The same for a field, whose default and json_name are its own attributes."""
        if not self._read.takes("["):
            return
        while True:
            if self._read.peek() in ("default", "json_name") and self._read.peek(1) == "=":
                name = self._read.name()
                self._read.expect("=")
                value = self._value()
                _set_attribute(field, name, value)
            else:
                self._one(field.options)
            if not self._read.takes(","):
                break
        self._read.expect("]")

    def skip_list(self) -> None:
        """Options that a descriptor has no place for."""
        if self._read.peek() == "[":
            self._aggregate()

    def _one(self, options: Any) -> None:
        parts = self._name_parts()
        self._read.expect("=")
        value = self._value()
        if len(parts) == 1 and not parts[0][1] and _set_known(options, parts[0][0], value):
            return
        kept = options.uninterpreted_option.add()
        for text, is_extension in parts:
            kept.name.add(name_part=text, is_extension=is_extension)
        _keep(kept, value)

    def _name_parts(self) -> list[tuple[str, bool]]:
        parts = []
        while True:
            if self._read.takes("("):
                parts.append((self._read.full_name(may_be_absolute=True), True))
                self._read.expect(")")
            else:
                parts.append((self._read.name(), False))
            if not self._read.takes("."):
                return parts

    def _value(self) -> _Value:
        if self._read.is_at_string:
            return _Value("string", "", self._read.string_bytes())
        if self._read.peek() in _CLOSING:
            return _Value("aggregate", self._aggregate())
        sign = "-" if self._read.takes("-") else ""
        if not sign:
            self._read.takes("+")
        found = self._read.next()
        if found.kind == "name":
            return _Value("name", sign + found.text + "".join(self._dotted()))
        if found.kind != "number":
            raise self._read.problem(f"the value of an option is expected, not {found.text}")
        return _Value("number", sign + found.text)

    def _dotted(self) -> list[str]:
        made = []
        while self._read.takes("."):
            made.append("." + self._read.name())
        return made

    def _aggregate(self) -> str:
        """Everything between brackets, as text."""
        opening = self._read.next().text
        open_now, made = [_CLOSING[opening]], list[str]()
        while open_now:
            found = self._read.next().text
            if found in _CLOSING:
                open_now.append(_CLOSING[found])
            elif found == open_now[-1]:
                open_now.pop()
            made.append(found)
        return " ".join(made[:-1])


def _set_attribute(field: Any, name: str, value: _Value) -> None:
    text = value.text
    if value.kind == "string":
        from ottla.schemas.protobuf.tokens import quoted

        # Of a field of bytes protoc keeps the escaped text.
        is_text = field.type != 12
        text = value.content.decode(errors="replace") if is_text else quoted(value.content)[1:-1]
    setattr(field, "default_value" if name == "default" else name, text)


def _set_known(options: Any, name: str, value: _Value) -> bool:
    """Set an option that descriptors know; False when they do not, or not with such a value."""
    field = options.DESCRIPTOR.fields_by_name.get(name)
    if field is None or field.is_repeated or name == "uninterpreted_option":
        return False
    try:
        if field.enum_type is not None:
            setattr(options, name, field.enum_type.values_by_name[value.text].number)
        elif value.kind == "string":
            setattr(options, name, value.content.decode())
        elif value.text in ("true", "false"):
            setattr(options, name, value.text == "true")
        else:
            setattr(options, name, int(value.text, 0))
    except (KeyError, TypeError, ValueError):
        return False
    return True


def _keep(kept: Any, value: _Value) -> None:
    if value.kind == "string":
        kept.string_value = value.content
    elif value.kind == "aggregate":
        kept.aggregate_value = value.text
    elif value.kind == "name":
        kept.identifier_value = value.text
    elif not value.text.lstrip("-").isdigit() and not value.text.lower().startswith("0x"):
        kept.double_value = float(value.text)
    elif value.text.startswith("-"):
        kept.negative_int_value = int(value.text)
    else:
        kept.positive_int_value = (
            int(value.text, 0) if not value.text.startswith("0") else int(value.text, 8 if value.text.isdigit() else 0)
        )
