"""The command `ottla <noun> <verb>`.

1. A noun's file is imported only when the noun is asked for, so `ottla --help` and completion are quick; this file
   imports nothing heavy.
2. Every failure is a sentence on stderr and exit code 1. Words that the parser does not know end with code 2, the
   nearest word and the help of the verb they were meant for.
3. Ctrl-C ends quietly with 130, and so does a closed pipe (`ottla ... | head`) with 141; what else the system refuses
   (a full disk) is a sentence.
"""

from __future__ import annotations

import argparse
import gc
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

from ottla.cli.collecting import collect_rarely
from ottla.cli.output import FAILED, OK, WRONG_USAGE, finish, sentence, terminal_columns

PROGRAM: Final = "ottla"
GROUPS: Final = {
    "first steps": {
        "broker": "start a broker, and look up its settings",
        "topic": "make, look at, change and delete topics",
        "produce": "write records, one for each line",
        "consume": "read records",
        "group": "consumer groups: members, lag, offsets",
    },
    "a cluster, day by day": {
        "top": "watch the cluster: rates, lag, trouble",
        "cluster": "who is in the cluster and how it is doing",
        "doctor": "why does it not work? walks a connection step by step",
        "config": "settings of topics, brokers and groups",
        "apply": "make a cluster what a file says: topics, rules, users",
        "reassign": "put replicas on other brokers, or have more of them",
        "elect": "leaders: the preferred ones again, or any at all",
        "logdirs": "directories of brokers: how full, with what",
        "storage": "a node's own directories: from ZooKeeper to KRaft",
        "features": "levels of what the cluster can do",
        "client": "what brokers speak with clients, and ask of them",
        "txn": "transactions: who holds one open, and how to end it",
        "verify": "is what was written there? replicas, round trips",
    },
    "who may do what": {
        "user": "who may log in: SCRAM passwords",
        "acl": "who may do what: access rules",
        "quota": "how much users, clients and addresses may use",
        "token": "delegation tokens: logins that end by themselves",
    },
    "with tables and Spark": {
        "table": "topics as tables of Delta and Iceberg, exactly once",
        "pipeline": "from topics through SQL and Python to topics and files",
        "job": "ready-made: archive, replay, mirror, profile",
        "spark": "is Spark set up for ottla? Packages for its executors",
    },
    "learn, measure, look inside": {
        "lab": "a whole cluster on this machine, to learn and to try",
        "zookeeper": "a ZooKeeper for development: one node, or three",
        "perf": "how fast it is here: produce, consume, latency",
        "log": "look into the files of a log, without a broker",
        "simulate": "a cluster in one process, from a seed: faults, a checker",
    },
    "your shell": {
        "completion": "what your shell needs to complete ottla's words",
        "man": "manual pages of every command",
        "install-commands": "Kafka's commands (kafka-topics, ...) in a directory",
    },
}
"""What a noun is for, short enough for one line of a narrow terminal; in the order and under the titles of the help."""
NOUNS: Final = {noun: text for nouns in GROUPS.values() for noun, text in nouns.items()}
# The simulation stands above the command line: it may look into every room.
ELSEWHERE: Final = {
    "simulate": "ottla.simulation.command",
    "install-commands": "ottla.cli.commands.install_commands",
}
EXAMPLES: Final = """\
examples:
  ottla broker start                            a broker on 127.0.0.1:9092
  ottla broker start --listen 127.0.0.1:0       on any free port
  ottla topic create clicks -p 6                make a topic
  ottla produce clicks events.txt               write records
  ottla consume clicks -o -10 -e                read the last ten of each partition
  ottla group describe billing                  who reads what, and how far behind

ottla NOUN --help shows the verbs and options of a noun, with examples.
"""


class HelpText(argparse.RawDescriptionHelpFormatter):
    """Texts as they are written, nouns in groups, and a column that is wide enough for the longest noun or verb."""

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            longest = max(map(len, action.choices), default=0) + self._current_indent
            self._action_max_length = max(self._action_max_length, longest + self._indent_increment)

    def _format_action(self, action: argparse.Action) -> str:
        """Nouns and verbs without a line that says NOUN or VERB; the first of a group of nouns after its title."""
        text = super()._format_action(action)
        if isinstance(action, argparse._SubParsersAction):
            return text.partition("\n")[2].removeprefix("\n")
        if self._prog != PROGRAM or action.dest not in NOUNS:
            return text
        titles = [title for title, nouns in GROUPS.items() if action.dest == next(iter(nouns))]
        return "".join(f"\n{' ' * self._indent_increment}{title}\n" for title in titles) + text


class Parser(argparse.ArgumentParser):
    """argparse with the nearest word; `-2h` is a value like `-2`, not an option."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._negative_number_matcher = re.compile(r"^-(\d+|\d*\.\d+)(ms|[smhd])?$")

    def _get_formatter(self) -> argparse.HelpFormatter:
        return self.formatter_class(prog=self.prog, width=terminal_columns() - 2)  # type: ignore[call-arg]

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USAGE, f"{self.prog}: {message}\ntry: {self.prog} --help\n")

    def parse_mixed(self, words: Sequence[str], unknown: list[str]) -> tuple[argparse.Namespace, list[str]]:
        """The words again with options between the others, as in `produce clicks -k tea FILE`: argparse gives all words
        without an option that it can take to the first run of them, and finds FILE left over."""
        verb = self.innermost(words)
        if any(word.startswith("-") for word in unknown) or verb is self:
            return argparse.Namespace(), unknown
        named = len(verb.prog.split()) - len(self.prog.split())
        try:
            return verb.parse_known_intermixed_args(words[named:])
        except TypeError:  # it has words that take everything behind them
            return argparse.Namespace(), unknown

    def innermost(self, words: Sequence[str]) -> argparse.ArgumentParser:
        """The parser of the verb that the words name, as far as they name one."""
        found: argparse.ArgumentParser = self
        for word in words:
            choices = [each.choices for each in found._actions if isinstance(each, argparse._SubParsersAction)]
            found = next((by_name[word] for by_name in choices if word in by_name), found)
        return found

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            import difflib

            known = [str(choice) for choice in action.choices]
            near = difflib.get_close_matches(str(value), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there is {', '.join(known)}"
            raise argparse.ArgumentError(None, f"there is no {value!r}{hint}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["--complete"]:
        return _complete(words[1:])
    return finish(lambda: _run(_as_options(words)))


def _as_options(words: list[str]) -> list[str]:
    """`help` and `version` as people type them elsewhere: `ottla help topic create` is `ottla topic create --help`."""
    if words[:1] == ["help"]:
        return [*words[1:], "--help"]
    return ["--version"] if words == ["version"] else words


def command() -> int:
    """`main` for a process that ends with it."""
    collect_rarely()
    code = main()
    gc.freeze()  # the interpreter would look through everything for garbage, twice, before it gives everything back
    return code


def _run(words: list[str]) -> int:
    parser = make_parser(words)
    parsed, unknown = parser.parse_known_args(words)
    if unknown:
        parsed, unknown = parser.parse_mixed(words, unknown)
    if unknown:
        parser.innermost(words).error(f"unrecognized arguments: {' '.join(unknown)}")
    run: Callable[[argparse.Namespace], int] | None = getattr(parsed, "run", None)
    if run is not None:
        return run(parsed)
    parsed.parser.print_help()
    return OK if not words else FAILED


def _complete(words: list[str]) -> int:
    """What the shell calls at every press of tab; a fault must not write into the line that is being typed."""
    from ottla.cli.completing import candidates

    try:
        print("\n".join(candidates(make_parser(words), words)))
    except Exception:
        return FAILED
    return OK


def make_parser(words: Sequence[str]) -> Parser:
    """The parser, with the verbs of the noun that is asked for and of no other."""
    parser = Parser(
        prog=PROGRAM,
        description="Apache Kafka for Python people.",
        epilog=EXAMPLES,
        formatter_class=HelpText,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    parser.set_defaults(parser=parser)
    # With `prog` argparse need not format a usage for it, for which it would look for the size of the terminal.
    nouns = parser.add_subparsers(metavar="NOUN", title="nouns", parser_class=Parser, prog=parser.prog)
    # A parser costs most of a millisecond: when the first word is a noun, nobody asks about the others.
    asked = {words[0]: NOUNS[words[0]]} if words and words[0] in NOUNS else NOUNS
    for noun, help_text in asked.items():
        noun_parser = nouns.add_parser(noun, help=help_text, description=sentence(help_text))
        noun_parser.set_defaults(parser=noun_parser)
        if noun in words:
            _fill(noun_parser, noun)
    return parser


def _fill(parser: Parser, noun: str) -> None:
    """The noun's own words: its verbs, or its options when it needs no verb (`ottla produce clicks`)."""
    commands = import_module(ELSEWHERE.get(noun, f"ottla.cli.commands.{noun}"))
    parser.epilog, parser.formatter_class = getattr(commands, "EXAMPLES", None), HelpText
    if hasattr(commands, "add_options"):
        commands.add_options(parser)
    else:
        commands.add_verbs(parser.add_subparsers(metavar="VERB", title="verbs", parser_class=Parser, prog=parser.prog))


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from ottla import __version__

        print(f"ottla {__version__}")
        parser.exit(OK)
