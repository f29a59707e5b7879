"""kafka-reassign-partitions: move partitions to other brokers or into other directories, and look how that goes.

1. This file reads the command line and the files; reassign_plans.py makes plans, reassign_moves.py carries them out,
   reassign_checks.py says how far they are.
2. What goes wrong is told on stdout, as Apache's tool tells it, and ends with 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.cluster import admin_with, settings_of
from ottla.cli.kafka.java_errors import described, first_failure
from ottla.cli.kafka.parser import COMMAND_CONFIG, Options, flag, number, parse, perhaps, value
from ottla.cli.kafka.partition_files import read_json
from ottla.cli.kafka.reassign_plans import Refused
from ottla.cli.output import FAILED, OK
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

SUMMARY: Final = "This tool helps to move topic partitions between replicas."
ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")
FILE: Final = "reassignment-json-file"
REQUIRED: Final = {
    "verify": (FILE,),
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": (FILE,),
    "cancel": (FILE,),
    "list": (),
}
PERMITTED: Final = {
    "verify": ("preserve-throttles",),
    "generate": ("broker-list", "disable-rack-aware"),
    "execute": (
        "additional",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "disallow-replication-factor-change",
    ),
    "cancel": ("preserve-throttles", "timeout"),
    "list": (),
}
OPTIONS: Final = (
    flag("verify", "say how far a reassignment is, and take throttles away when it is done"),
    flag("generate", "propose a reassignment"),
    flag("execute", "begin a reassignment"),
    flag("cancel", "take a reassignment back"),
    flag("list", "list reassignments that are going on"),
    perhaps("bootstrap-server", "one or more brokers, HOST:PORT,HOST:PORT", "Server(s) to use for bootstrapping"),
    value("bootstrap-controller", "controllers of a KRaft cluster", "bootstrap controller to connect to"),
    COMMAND_CONFIG,
    value(FILE, "the reassignment", "manual assignment json file path"),
    value("topics-to-move-json-file", "topics for --generate", "topics to reassign json file path"),
    value("broker-list", "brokers for --generate: 0,1,2", "brokerlist"),
    flag("disable-rack-aware", "do not look at racks"),
    number("throttle", "bytes/sec between brokers", "throttle", default=-1),
    number("replica-alter-log-dirs-throttle", "bytes/sec between directories", "throttle", default=-1),
    number("timeout", "milliseconds until a move between directories must have begun", "timeout", default=10_000),
    flag("additional", "although others are going on"),
    flag("preserve-throttles", "leave throttles alone"),
    flag("disallow-replication-factor-change", "refuse to change the number of copies"),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-reassign-partitions", SUMMARY, OPTIONS, words)
    action = _action(options)
    settings = {"client.id": "reassign-partitions-tool"} | settings_of(options)
    try:
        with admin_with(settings) as admin:
            _RUNS[action](admin, options)
    except Refused as error:
        print(error)
        return FAILED
    except (OttlaError, TimeoutError, ValueError) as error:
        cause = first_failure(error)
        print(f"Error: {cause if isinstance(cause, ValueError) else described(cause)}")
        return FAILED
    return OK


def _action(options: Options) -> str:
    found = [each for each in ACTIONS if options.has(each)]
    if len(found) != 1:
        options.wrong(f"Command must include exactly one action: {', '.join('--' + each for each in ACTIONS)}")
    servers = [each for each in ("bootstrap-server", "bootstrap-controller") if options.has(each)]
    if len(servers) == 2:
        options.wrong("Please don't specify both --bootstrap-server and --bootstrap-controller")
    if not servers:
        options.wrong("Please specify either --bootstrap-server or --bootstrap-controller")
    action = found[0]
    options.require(*REQUIRED[action])
    allowed = {action, "bootstrap-server", "command-config", *REQUIRED[action], *PERMITTED[action]}
    for each in options.order:
        if each not in allowed:
            options.wrong(f'Option "[{each}]" can\'t be used with action "[{action}]"')
    return action


# --- the five actions ------------------------------------------------------------------------------------------------


def _generate(admin: Admin, options: Options) -> None:
    from ottla.cli.kafka.reassign_plans import generate, parse_topics

    topics = parse_topics(read_json(options.text("topics-to-move-json-file")))
    generate(admin, topics, options.text("broker-list"), racks=not options.has("disable-rack-aware"))


def _execute(admin: Admin, options: Options) -> None:
    from ottla.cli.kafka.reassign_moves import Limits, execute
    from ottla.cli.kafka.reassign_plans import parse_plan

    plan = parse_plan(read_json(options.text(FILE)))
    limits = Limits(
        options.number("throttle") or 0 if options.number("throttle") != -1 else None,
        options.number("replica-alter-log-dirs-throttle") or 0
        if options.number("replica-alter-log-dirs-throttle") != -1
        else None,
        options.number("timeout") or 0,
    )
    execute(
        admin,
        plan,
        limits,
        additional=options.has("additional"),
        may_change_copies=not options.has("disallow-replication-factor-change"),
    )


def _verify(admin: Admin, options: Options) -> None:
    from ottla.cli.kafka.reassign_checks import verify
    from ottla.cli.kafka.reassign_plans import parse_plan

    verify(admin, parse_plan(read_json(options.text(FILE))), preserve=options.has("preserve-throttles"))


def _cancel(admin: Admin, options: Options) -> None:
    from ottla.cli.kafka.reassign_moves import cancel
    from ottla.cli.kafka.reassign_plans import parse_plan

    plan = parse_plan(read_json(options.text(FILE)))
    cancel(admin, plan, options.number("timeout") or 0, preserve=options.has("preserve-throttles"))


def _list(admin: Admin, _: Options) -> None:
    from ottla.cli.kafka.reassign_checks import print_reassignments

    print_reassignments(admin)


_RUNS: Final = {"generate": _generate, "execute": _execute, "verify": _verify, "cancel": _cancel, "list": _list}
