"""How librdkafka reads the value of a property, with its own words when it cannot.

1. Numbers are read as C does: blanks before, any base that C knows, whatever stands behind is passed over ("1.5" is 1),
   and 32 bits are kept. Booleans are true, t, 1, false, f, 0 in any case; choices are compared without case.
2. An empty text and None mean: back to the default. Only texts have one that can be restored.
3. What is refused is a KafkaException with _INVALID_ARG and the sentence that librdkafka has for it.
"""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

from ottla.compat.confluent_kafka.errors import KafkaError, KafkaException
from ottla.compat.confluent_kafka.partitioners import PARTITIONERS
from ottla.compat.confluent_kafka.properties import CALLBACK, INTERNAL, WINDOWS, Property, properties

Parsed = str | int | float | bool | None

_INTEGER: Final = re.compile(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"\s*[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_BOOLS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_NAMED_NUMBERS: Final = {"request.required.acks": {"all": -1}}
_LONG: Final = 1 << 63
_NEVER_EMPTY: Final = ("sasl.mechanisms", "partitioner", "broker.version.fallback")


def refuse(text: str) -> NoReturn:
    """As librdkafka refuses a configuration."""
    raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))


def parse(name: str, value: object) -> tuple[Property, Parsed]:
    """The property that a name stands for, and its value."""
    found = properties().get(name)
    if found is None:
        refuse(f'No such configuration property: "{name}"')
    if found.alias_of is not None:
        found = properties()[found.alias_of]
    if found.effect == CALLBACK:
        refuse(f'Property "{name}" must be set through dedicated .._set_..() function')
    if found.effect == INTERNAL:
        refuse(f'Internal property "{name}" not settable')
    if found.effect == WINDOWS:
        refuse(f'Configuration property "{name}" not supported in this build: configuration only valid on Windows')
    text = "" if value is None else str(value).lstrip()
    return found, _PARSERS[found.kind](found, text)


def _text(found: Property, text: str) -> Parsed:
    if not text:
        if found.name in _NEVER_EMPTY:
            refuse(f'Invalid value for configuration property "{found.name}": (null)')
        return None
    if (found.name == "partitioner" and text not in PARTITIONERS) or (found.name == "sasl.mechanisms" and " " in text):
        refuse(f'Invalid value for configuration property "{found.name}": {text}')
    if found.name == "topic.blacklist":
        _check_patterns(text)
    if found.name == "plugin.library.paths":
        refuse(f"dlopen() failed: plug-ins of librdkafka cannot be loaded here (plugin {text})")
    return text


def _check_patterns(text: str) -> None:
    for each in text.split(","):
        try:
            re.compile(each)
        except re.error as error:
            what = "preceding regular" if "nothing to repeat" in str(error) else "regular"
            refuse(f'Failed to parse pattern "{each}": Invalid {what} expression')


def _integer(found: Property, text: str) -> Parsed:
    _refuse_empty("Integer configuration", found, text)
    matched = _INTEGER.match(text)
    if matched is None:
        named = _NAMED_NUMBERS.get(found.name, {}).get(text.lower())
        if named is None:
            refuse(f'Invalid value for configuration property "{found.name}"')
        return named
    sign, digits = matched.groups()
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX"
    number = int(digits, 8) if octal else int(digits, 0)
    number = max(min(-number if sign == "-" else number, _LONG - 1), -_LONG)
    number = (number + (1 << 31)) % (1 << 32) - (1 << 31)
    return _within(found, number, str(number))


def _float(found: Property, text: str) -> Parsed:
    _refuse_empty("Float configuration", found, text)
    matched = _FLOAT.match(text)
    if matched is None:
        refuse(f'Invalid value for configuration property "{found.name}"')
    word = matched[0].strip()
    number = float(int(word, 16)) if "x" in word.lower() else float(word)
    return _within(found, number, f"{number:g}")


def _within(found: Property, number: Any, shown: str) -> Parsed:
    assert found.bounds is not None, found.name
    low, high = found.bounds
    if not low <= number <= high:
        refuse(f'Configuration property "{found.name}" value {shown} is outside allowed range {low}..{high}\n')
    return number  # type: ignore[no-any-return]


def _bool(found: Property, text: str) -> Parsed:
    _refuse_empty("Bool configuration", found, text)
    if text.lower() not in _BOOLS:
        refuse(f'Expected bool value for "{found.name}": true or false')
    return _BOOLS[text.lower()]


def _enum(found: Property, text: str) -> Parsed:
    _refuse_empty("Configuration", found, text)
    for each in found.choices:
        if each.lower() == text.lower():
            return each
    refuse(f'Invalid value "{text}" for configuration property "{found.name}"')


def _flags(found: Property, text: str) -> Parsed:
    _refuse_empty("Configuration", found, text)
    for each in text.split(","):
        word = each.lstrip().lstrip("+-")
        if word and word.lower() not in found.choices:
            refuse(f'Invalid value "{word}" for configuration property "{found.name}"')
    return text


def _refuse_empty(what: str, found: Property, text: str) -> None:
    if not text:
        refuse(f'{what} property "{found.name}" cannot be set to empty value')


_PARSERS: Final = {"text": _text, "int": _integer, "float": _float, "bool": _bool, "enum": _enum, "flags": _flags}
