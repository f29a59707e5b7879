"""The command line of Kafka's tools, read as the library of Apache's tools (joptsimple) reads it.

    OPTIONS = (flag("list", "all topics"), value("topic", "which one"), number("partitions", "how many"))
    options = parse("kafka-topics", "Create, delete, describe, or change a topic.", OPTIONS, words)
    options.has("list"), options.value("topic"), options.values("config")

1. Options may come in any order, as `--name value`, `--name=value`, `-name value`; `--` ends them. Nothing may be
   abbreviated. A value may begin with a dash: an option that needs one takes the next word, whatever it is.
2. The words about mistakes are those of Apache's tools ("zookeeper is not a recognized option", "Missing required
   argument "[topic]""), because scripts look for them. After such a sentence comes the usage, all on stderr, code 1.
3. No word at all, or --help, prints the usage and ends with 1; --version prints Kafka's release and ends with 0.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Final, NoReturn

from ottla.cli.kafka.ends import ToolEnded, UnknownOption, WrongUsage
from ottla.cli.output import FAILED, OK
from ottla.light_tuples import NamedTuple

KAFKA_VERSION: Final = "4.3.1"
"""The release whose tools these follow."""
NONE, REQUIRED, OPTIONAL = "none", "required", "optional"
COLUMN: Final = 41
WIDTH: Final = 80
Value = str | int


class Option(NamedTuple):
    """One option: its name without dashes, its help, what it takes."""

    name: str
    help: str
    argument: str = NONE
    kind: type[str] | type[int] = str
    metavar: str = "String"
    default: Value | None = None
    needs: tuple[str, ...] = ()
    """Only together with one of these."""
    separator: str = ""
    """One word may hold several values, with this between them."""


def flag(name: str, help_text: str, *, needs: tuple[str, ...] = ()) -> Option:
    return Option(name, help_text, needs=needs)


def value(
    name: str, help_text: str, metavar: str = "String", *, default: str | None = None, separator: str = ""
) -> Option:
    return Option(name, help_text, REQUIRED, str, metavar, default, separator=separator)


def number(name: str, help_text: str, metavar: str = "Integer", *, default: int | None = None) -> Option:
    return Option(name, help_text, REQUIRED, int, metavar, default)


def perhaps(name: str, help_text: str, metavar: str = "String", *, needs: tuple[str, ...] = ()) -> Option:
    """An option whose value may be left out."""
    return Option(name, help_text, OPTIONAL, str, metavar, needs=needs)


BOOTSTRAP: Final = value(
    "bootstrap-server", "REQUIRED: one or more brokers, HOST:PORT,HOST:PORT", "server to connect to"
)
COMMAND_CONFIG: Final = value("command-config", "a file with client settings", "command config property file")


class Options:
    """What the command line said."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._found: dict[str, list[str]] = {}
        self.order: list[str] = []
        """The options one by one, as they stood on the command line."""
        self.rest: list[str] = []
        """Words that are no options."""

    def add(self, name: str, *values: str) -> None:
        self.order.append(name)
        self._found.setdefault(name, []).extend(values)

    def has(self, name: str) -> bool:
        return name in self._found

    def values(self, name: str) -> list[str]:
        """All values of an option that may be repeated, as text; its default when it is not there."""
        found = self._found.get(name)
        if found is None:
            default = self._parser.options[name].default
            return [] if default is None else [str(default)]
        return [str(each) for each in found]

    def value(self, name: str) -> str | None:
        found = self._single(name)
        return None if found is None else str(found)

    def text(self, name: str) -> str:
        """The value of an option that is there or has a default."""
        return self.value(name) or ""

    def number(self, name: str) -> int | None:
        """A value as a number: only who asks for it hears that it is none, as with joptsimple."""
        found = self._single(name)
        try:
            return None if found is None else int(found)
        except ValueError:
            raise WrongUsage(f"Cannot parse argument '{found}' of option {name}") from None

    def _single(self, name: str) -> Value | None:
        found = self._found.get(name)
        if not found:
            return self._parser.options[name].default
        if len(found) > 1:
            raise WrongUsage(f"Found multiple arguments for option {name}, but you asked for only one")
        return found[0]

    # --- what must and what must not be there ---

    def wrong(self, text: str) -> NoReturn:
        """The sentence, the usage, and the end."""
        self._parser.end_with_usage(text)

    def require(self, *names: str) -> None:
        for name in names:
            if not self.has(name):
                self.wrong(f'Missing required argument "[{name}]"')

    def exclude(self, name: str, others: Iterable[str]) -> None:
        """With `name` none of the others."""
        for other in others:
            if self.has(name) and self.has(other):
                self.wrong(f'Option "[{name}]" can\'t be used with option "[{other}]"')

    def one_of(self, *names: str) -> str:
        """The one of these that is there; there must be exactly one."""
        there = [name for name in names if self.has(name)]
        if len(there) != 1:
            listed = ", ".join(f"[{name}]" for name in names)
            self.wrong(f"Exactly one of the following arguments is required: {listed}")
        return there[0]


class Parser:
    """The options of one tool."""

    def __init__(self, tool: str, summary: str, options: Iterable[Option]) -> None:
        self.tool = tool
        self.summary = summary
        self.options = {option.name: option for option in (*options, _HELP, _VERSION)}

    def parse(self, words: Sequence[str]) -> Options:
        found = Options(self)
        waiting = list(words)
        while waiting:
            word = waiting.pop(0)
            if word == "--":
                found.rest += waiting
                break
            if word.startswith("-") and word != "-":
                self._read_option(found, word, waiting)
            else:
                found.rest.append(word)
        self._check_needs(found)
        return found

    def _read_option(self, found: Options, word: str, waiting: list[str]) -> None:
        name, _, text = word.lstrip("-").partition("=")
        option = self.options.get(name)
        if option is None:
            raise UnknownOption(word, name)
        if option.argument == NONE:
            found.add(name)
        elif text:
            found.add(name, *_parts(option, text))
        elif option.argument == REQUIRED:
            if not waiting:
                raise WrongUsage(f"Option {name} requires an argument")
            found.add(name, *_parts(option, waiting.pop(0)))
        elif waiting and (not waiting[0].startswith("-") or _is_number(option, waiting[0])):
            found.add(name, *_parts(option, waiting.pop(0)))
        else:
            found.add(name)

    def _check_needs(self, found: Options) -> None:
        for option in self.options.values():
            if option.needs and found.has(option.name) and not any(map(found.has, option.needs)):
                raise WrongUsage(f"Option(s) [{option.name}] are unavailable given other options on the command line")

    def end_with_usage(self, text: str, *last: str) -> NoReturn:
        print(text, file=sys.stderr)
        print("\n".join([*self.usage(), *last]), file=sys.stderr)
        raise ToolEnded(FAILED)

    def similar(self, name: str) -> list[str]:
        """A line about the option that may be meant: behind the usage, which is longer than many a screen."""
        if name in FORMER:
            return [f"\n{name} is not a recognized option any more: {FORMER[name]}"]
        from difflib import get_close_matches

        return [
            f"\n{name} is not a recognized option; did you mean --{each}?"
            for each in get_close_matches(name, self.options, 1)
        ]

    def usage(self) -> list[str]:
        lines = [f"{'Option':{COLUMN}}Description", f"{'------':{COLUMN}}-----------"]
        for option in sorted(self.options.values(), key=lambda each: each.name):
            lines += _usage_lines(option)
        return lines


FORMER: Final = {
    "zookeeper": "commands ask a broker since Kafka 3.0; use --bootstrap-server HOST:PORT",
    "broker-list": "use --bootstrap-server HOST:PORT",
    "new-consumer": "there is no other; leave it out",
    "whitelist": "use --include",
    "authorizer": "rules are the brokers' since Kafka 4.0; use --bootstrap-server HOST:PORT",
    "authorizer-properties": "rules are the brokers' since Kafka 4.0; use --bootstrap-server HOST:PORT",
}
"""Options that Kafka's commands once had, and that old notes and scripts still have."""

_HELP: Final = Option("help", "Print usage information.")
_VERSION: Final = Option("version", "Display Kafka version.")


def parse(
    tool: str, summary: str, options: Iterable[Option], words: Sequence[str], *, when_empty: str | None = None
) -> Options:
    """The options of a command line; a mistake in it, --help and --version end the command here."""
    parser = Parser(tool, summary, options)
    try:
        found = parser.parse(words)
    except UnknownOption as unknown:
        parser.end_with_usage(str(unknown), *parser.similar(unknown.name))
    except WrongUsage as mistake:
        parser.end_with_usage(str(mistake))
    if not words or found.has("help"):
        parser.end_with_usage(summary if words or when_empty is None else when_empty)
    if found.has("version"):
        print(KAFKA_VERSION)
        raise ToolEnded(OK)
    return found


def _is_number(option: Option, word: str) -> bool:
    """-1 is a value, where a number is wanted."""
    return option.kind is int and word.removeprefix("-").isdecimal()


def _parts(option: Option, text: str) -> list[str]:
    return text.split(option.separator) if option.separator else [text]


def _usage_lines(option: Option) -> list[str]:
    from textwrap import wrap  # only help needs it

    word = {
        NONE: f"--{option.name}",
        REQUIRED: f"--{option.name} <{option.kind.__name__}: {option.metavar}>",
        OPTIONAL: f"--{option.name} [{option.metavar}]",
    }[option.argument]
    text = option.help + (f" (default: {option.default})" if option.default is not None else "")
    folded = wrap(text, WIDTH - COLUMN) or [""]
    if len(word) < COLUMN:
        return [f"{word:{COLUMN}}{folded[0]}", *(" " * COLUMN + line for line in folded[1:])]
    return [word, *(" " * COLUMN + line for line in folded)]
