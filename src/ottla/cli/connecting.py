"""What every command that speaks to a cluster has in common: where it is, who we are, how long to wait.

1. Strongest first: --bootstrap-server and -X, the file of --command-config (or of OTTLA_COMMAND_CONFIG),
   OTTLA_BOOTSTRAP_SERVERS, localhost:9092.
2. The file has Kafka's names, as the Java tools read it (client.properties).
3. Whatever goes wrong ends as one sentence with what to do; nothing of the inside is shown.
4. Where nothing listens, or nobody knows the name, it is said at once, and tried for a few seconds more, in case a
   broker is just starting; for as long as --timeout says when it was given (decisions 0088 and 0147).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.cli.output import Failure, Output, sentence

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.values import Address

DEFAULT_SERVERS: Final = "localhost:9092"
SERVERS_VARIABLE: Final = "OTTLA_BOOTSTRAP_SERVERS"
CONFIG_VARIABLE: Final = "OTTLA_COMMAND_CONFIG"
BOOTSTRAP: Final = "bootstrap.servers"
TOLD_LIMIT: Final = 5
REFUSED_PATIENCE_S: Final = 5.0
"""A broker that was started just now listens within a second; in a container within some."""
KNOCK_S: Final = 0.25
NOBODY_THERE: Final = (
    "Start a broker with `ottla broker start`, or name another with -b HOST:PORT; `ottla doctor` tells more"
)

Verbs: TypeAlias = "argparse._SubParsersAction[Any]"


def add_verb(
    verbs: Verbs, name: str, help_text: str, run: Callable[[argparse.Namespace], int], examples: str
) -> argparse.ArgumentParser:
    """A verb of a noun that speaks to a cluster."""
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=help_text)
    describe(parser, help_text, run, examples)
    return parser


def describe(
    parser: argparse.ArgumentParser, help_text: str, run: Callable[[argparse.Namespace], int], examples: str
) -> None:
    """Text, examples, the common options and what to run."""
    parser.description = sentence(help_text)
    parser.epilog = examples
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    group = parser.add_argument_group("connection")
    group.add_argument(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT",
        help=f"one or more brokers, with commas between them (default: ${SERVERS_VARIABLE}, else {DEFAULT_SERVERS})",
    )
    group.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help=f"a file with client settings in Java's form, such as client.properties (default: ${CONFIG_VARIABLE})",
    )
    group.add_argument(
        "-X",
        "--command-property",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="one client setting; may be repeated",
    )
    group.add_argument(
        "--timeout",
        type=float,
        default=30.0,
        action=_Explicit,
        metavar="S",
        help=f"seconds to wait at most (30; {REFUSED_PATIENCE_S:.0f} where nothing listens or the name is unknown)",
    )
    parser.set_defaults(run=run, timeout_explicit=False)


class _Explicit(argparse.Action):
    """Remembers that an option stood on the command line."""

    def __call__(self, _: object, options: argparse.Namespace, value: Any, option: str | None = None) -> None:
        setattr(options, self.dest, value)
        setattr(options, f"{self.dest}_explicit", True)


def add_format(parser: argparse.ArgumentParser) -> None:
    """A table for people or JSON for programs."""
    parser.add_argument("--format", choices=("text", "json"), default="text", help="a table, or JSON for programs")
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")


def settings_of(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> dict[str, object]:
    """The client settings that the options ask for."""
    settings: dict[str, object] = {BOOTSTRAP: environment.get(SERVERS_VARIABLE) or DEFAULT_SERVERS}
    file = options.command_config
    if file is None and (named := environment.get(CONFIG_VARIABLE)):
        file = Path(named)
    if file is not None:
        from ottla.errors import OttlaError
        from ottla.properties import read_properties

        try:
            settings |= read_properties(file)
        except OSError as error:
            raise Failure(f"cannot read {file}: {error.strerror}") from None
        except OttlaError as error:
            raise Failure(str(error)) from None
    settings |= pairs(options.command_property, "-X")
    if options.bootstrap_server is not None:
        settings[BOOTSTRAP] = options.bootstrap_server
    return settings


def pairs(words: list[str], option: str) -> dict[str, str]:
    """NAME=VALUE words as a dictionary."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise Failure(f"{option} {word}: write it as NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


@contextmanager
def sentences() -> Iterator[None]:
    """Errors of the client leave as one sentence."""
    from ottla.errors import BrokerError, NotConnected, OttlaError

    try:
        yield
    except NotConnected as error:
        raise Failure(f"{error.detail or error}. {NOBODY_THERE}") from None
    except OttlaError as error:
        raise Failure(_failure_text(error)) from None
    except TimeoutError as error:
        if isinstance(error.__cause__, BrokerError):  # it was reached, and has said why
            raise Failure(f"{error}") from None
        raise Failure(f"{error}. Is the cluster reachable? Try: ottla doctor") from None


def _failure_text(error: Exception) -> str:
    """The sentence; of several things that failed each sentence once."""
    from ottla.client.admin.plans import PartlyFailed

    if not isinstance(error, PartlyFailed):
        return str(error)
    reasons = list(dict.fromkeys(map(str, error.failed.values())))  # many things often fail for one reason
    if len(reasons) == 1 and not error.succeeded:
        return reasons[0]
    text = "; ".join(reasons[:TOLD_LIMIT])
    more = f"; and {len(reasons) - TOLD_LIMIT} more" if len(reasons) > TOLD_LIMIT else ""
    return f"{len(error.failed)} of {len(error.failed) + len(error.succeeded)} failed: {text}{more}"


@contextmanager
def admin_of(options: argparse.Namespace) -> Iterator[Admin]:
    """An admin client for as long as the command runs."""
    from ottla.client.admin.direct_admin import direct_admin

    with sentences():
        settings = settings_of(options)
        is_explicit = options.timeout_explicit or "default.api.timeout.ms" in settings
        settings.setdefault("default.api.timeout.ms", max(int(options.timeout * 1000), 1))
        settings.setdefault("request.timeout.ms", max(int(options.timeout * 1000), 1))
        with direct_admin(
            settings,
            when_refused=lambda places, left_ms: _try_on(_nothing_listens(places), left_ms, is_explicit),
            when_unknown=lambda places, left_ms: _try_on(_no_such_name(places), left_ms, is_explicit),
        ) as admin:
            yield admin


def wait_for_listener(options: argparse.Namespace, settings: Mapping[str, Any]) -> None:
    """Before a producer or a consumer is made, which try for as long as they are told: where nothing listens at any
    address it is said at once, and tried for a few seconds. Whatever else may be wrong they know better."""
    import time

    from ottla.values import parse_addresses

    places = parse_addresses(settings[BOOTSTRAP])
    failure = _knock(places)
    if failure is None:
        return
    what = _nothing_listens(places) if isinstance(failure, ConnectionRefusedError) else _no_such_name(places)
    left_s = _try_on(what, options.timeout * 1000, options.timeout_explicit) / 1000
    until_s = time.monotonic() + left_s
    while time.monotonic() < until_s:
        time.sleep(min(KNOCK_S, left_s))
        if (failure := _knock(places)) is None:
            return
    from ottla.net.transport import explained

    raise explained(failure, places[-1].host, places[-1].port)


def _knock(places: Sequence[Address]) -> OSError | None:
    """Why nobody can be asked, when that is sure for every place: nothing listens there, or nobody knows the name."""
    import socket

    from ottla.client.admin.direct_finding import is_unknown_name

    failure: OSError | None = None
    for place in places:
        try:
            socket.create_connection((place.host, place.port), timeout=KNOCK_S).close()
        except OSError as error:
            if not isinstance(error, ConnectionRefusedError) and not is_unknown_name(error):
                return None
            failure = error
        else:
            return None
    return failure


def _nothing_listens(places: Sequence[Address]) -> str:
    return f"nothing listens at {' or '.join(map(str, places))}"


def _no_such_name(places: Sequence[Address]) -> str:
    return f"nobody knows the name {' or '.join(dict.fromkeys(place.host for place in places))}"


def _try_on(what: str, left_ms: float, is_explicit: bool) -> float:
    """Say that; for how many milliseconds it is tried all the same."""
    import sys

    shown_ms = left_ms if is_explicit else min(left_ms, REFUSED_PATIENCE_S * 1000)
    print(f"ottla: {what}; trying on for {shown_ms / 1000:g} s", file=sys.stderr, flush=True)
    return shown_ms


def output_of(options: argparse.Namespace) -> Output:
    import sys

    return Output(sys.stdout, form=options.format)


def ensure(condition: object, sentence: str) -> None:
    """The sentence as a failure unless the condition holds."""
    if not condition:
        raise Failure(sentence)


def confirmed(question: str, *, yes: bool) -> bool:
    """Whether to go on: said by --yes, else asked on a terminal; without a terminal nobody can be asked."""
    import sys

    if yes:
        return True
    if not sys.stdin.isatty():
        raise Failure(f"{question} Nobody can be asked here; add --yes if you mean it")
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:  # Ctrl-D is no answer, and no answer is no
        print()
        return False
