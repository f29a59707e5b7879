"""Where settings are written besides code: Java's .properties files, and KAFKA_ variables of the environment.

1. A file means the same to Kafka: ISO-8859-1 with Java's escapes, continued lines, and the last one of a key counts.
2. Variables are named as the official image names them. What only looks like one (of Kafka's start scripts, of
   Kubernetes) is passed over.
3. Keys and values are texts; what they mean is up to settings.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ottla.errors import InvalidSetting

if TYPE_CHECKING:
    from pathlib import Path

PROPERTIES_LIMIT_BYTES: Final = 1 << 20
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_PAIR: Final = r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)"


def read_properties(path: Path | str) -> dict[str, str]:
    """The settings of a Java .properties file: ottla.Producer(ottla.read_properties("client.properties"))."""
    from pathlib import Path  # not before a file is read: most commands and clients have none

    with Path(path).open("rb") as file:
        raw = file.read(PROPERTIES_LIMIT_BYTES + 1)
    if len(raw) > PROPERTIES_LIMIT_BYTES:
        raise InvalidSetting(f"{path} is larger than {PROPERTIES_LIMIT_BYTES} bytes; that is no settings file")
    return parse_properties(raw.decode("iso-8859-1"))


def parse_properties(text: str) -> dict[str, str]:
    """The pairs of a text in Java's .properties syntax; when a key comes twice the last one counts, as in Java."""
    return {key: value for _, key, value in _numbered_pairs(text)}


def lines_of_properties(path: Path) -> dict[str, int]:
    """On which line of a .properties file each key stands; the last one where it comes twice."""
    text = path.read_bytes()[:PROPERTIES_LIMIT_BYTES].decode("iso-8859-1")
    return {key: number for number, key, _ in _numbered_pairs(text)}


def _numbered_pairs(text: str) -> Iterator[tuple[int, str, str]]:
    for number, line in _logical_lines(text):
        found = re.fullmatch(_PAIR, line, re.DOTALL)
        if found is not None:
            yield number, _unescaped(found[1]), _unescaped(found[2])


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with what was continued put together, and the number each begins on."""
    held: str | None = None
    first = 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(" \t\f")
        if held is None and (not line or line[0] in "#!"):
            continue
        first = number if held is None else first
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            held = (held or "") + line[:-1]
            continue
        yield first, (held or "") + line
        held = None
    if held:
        yield first, held


def _unescaped(text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        escaped = found[1]
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        if escaped == "u":
            raise InvalidSetting(f"the .properties text has \\u without four hexadecimal digits near {text[:40]!r}")
        return _ESCAPES.get(escaped, escaped)

    plain = re.sub(r"\\(u[0-9a-fA-F]{4}|.)", replace, text, flags=re.DOTALL)
    # Java writes what lies beyond 16 bits as two escapes; in Python they are one character.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# Variables of Kafka's start scripts and of its image that share the prefix but are no settings.
SCRIPT_VARIABLES: Final = frozenset(
    {
        *("KAFKA_HEAP_OPTS", "KAFKA_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_JMX_OPTS", "KAFKA_JMX_PORT"),
        *("KAFKA_JMX_HOSTNAME", "KAFKA_GC_LOG_OPTS", "KAFKA_DEBUG", "KAFKA_HOME", "KAFKA_MODE", "KAFKA_VERSION"),
        *("KAFKA_LOG4J_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_LOG4J_LOGGERS", "KAFKA_LOG4J_CMD_OPTS"),
        *("KAFKA_TOOLS_LOG4J_LOGLEVEL", "KAFKA_CLASSPATH", "KAFKA_BROKERS"),
    }
)
# Kubernetes puts these into every pod of a namespace that has a service named kafka or kafka-something.
_KUBERNETES: Final = r"KAFKA_(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT(_[0-9]+_(TCP|UDP)(_\w+)?)?)"


def read_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Dotted keys from KAFKA_ variables: "_" is ".", "__" is "_", "___" is "-", as in the official image."""
    found: dict[str, str] = {}
    for name, value in environment.items():
        if not name.startswith("KAFKA_") or name in SCRIPT_VARIABLES or re.fullmatch(_KUBERNETES, name):
            continue
        if name.startswith("KAFKA_CFG_"):
            import logging  # which commands do without

            log, key = logging.getLogger(__name__), name.removeprefix("KAFKA_CFG_")
            log.warning("%s is read, but is another image's form; write KAFKA_%s", name, key)
            found.setdefault(_key_of_variable(name.removeprefix("KAFKA_CFG_")), value)
        else:
            found[_key_of_variable(name.removeprefix("KAFKA_"))] = value
    return found


def _key_of_variable(name: str) -> str:
    def replace(found: re.Match[str]) -> str:
        dashes, rest = divmod(len(found[0]), 3)
        return "-" * dashes + ("", ".", "_")[rest]

    return re.sub("_+", replace, name.lower())
