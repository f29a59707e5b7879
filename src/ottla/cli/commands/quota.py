"""`ottla quota`: how much users, clients and addresses may use, each second and on each broker.

1. An entity is a user, a client id, a user with a client id, or an address; `--default client` is every client without
   a quota of its own. Kafka decides which quota applies: the most particular.
2. Amounts of bytes may have units: 1MB is a million, 1MiB is 1,048,576 (amounts.py).
3. Whoever uses more is slowed down, not refused. A change acts at once and survives restarts.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.amounts import bytes_of, number_of, written
from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, ensure, output_of
from ottla.cli.output import OK, Failure
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.client.admin.quotas import EntityKey, QuotaFilter

EXAMPLES: Final = """\
examples:
  ottla quota set --client loader --produce 1MB             a million bytes a second
  ottla quota set --user alice --produce 10MiB --consume 20MiB
  ottla quota set --user alice --client loader --request-percentage 50
  ottla quota set --default client --consume 5MB            every client that has none of its own
  ottla quota set --ip 10.0.0.7 --connection-rate 10
  ottla quota list
  ottla quota remove --client loader --produce
  ottla quota remove --user alice                           all that alice has
"""
ENTITIES: Final = {"user": "user", "client": "client-id", "ip": "ip"}


class Limit(NamedTuple):
    """A kind of quota: the option, Kafka's name, the heading, how its value is read, and what it limits."""

    option: str
    name: str
    heading: str
    parse: Callable[[str], float]
    metavar: str
    help: str


LIMITS: Final = (
    Limit(
        "produce", "producer_byte_rate", "PRODUCE B/S", bytes_of, "BYTES", "bytes written in a second: 1MB, 1MiB, ..."
    ),
    Limit("consume", "consumer_byte_rate", "CONSUME B/S", bytes_of, "BYTES", "bytes read in a second"),
    Limit(
        "request-percentage",
        "request_percentage",
        "REQUEST %",
        number_of,
        "N",
        "share of a broker's time, 100 is one thread",
    ),
    Limit(
        "mutation-rate",
        "controller_mutation_rate",
        "MUTATIONS/S",
        number_of,
        "N",
        "partitions created or deleted in a second",
    ),
    Limit(
        "connection-rate",
        "connection_creation_rate",
        "CONNECTIONS/S",
        number_of,
        "N",
        "new connections in a second (only with --ip)",
    ),
)


def add_verbs(verbs: Verbs) -> None:
    set_ = add_verb(verbs, "set", "limit somebody", run_set, EXAMPLES)
    _add_entity(set_)
    group = set_.add_argument_group("how much")
    for each in LIMITS:
        group.add_argument(f"--{each.option}", metavar=each.metavar, help=each.help)
    set_.add_argument("--validate-only", action="store_true", help="only ask whether it would work")
    listing = add_verb(verbs, "list", "the quotas there are", run_list, EXAMPLES)
    _add_entity(listing)
    add_format(listing)
    remove = add_verb(verbs, "remove", "take quotas away", run_remove, EXAMPLES)
    _add_entity(remove)
    group = remove.add_argument_group("which (all of them)")
    for each in LIMITS:
        group.add_argument(f"--{each.option}", action="store_true", help=each.help)
    remove.add_argument("--if-exists", action="store_true", help="be content if there is none")


def _add_entity(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("whom")
    group.add_argument("--user", metavar="NAME", help="a user; with --client, only that client of his")
    group.add_argument("--client", metavar="NAME", help="a client id")
    group.add_argument("--ip", metavar="ADDRESS", help="an address or a host name; it has a connection rate only")
    group.add_argument(
        "--default",
        action="append",
        default=[],
        choices=tuple(ENTITIES),
        help="all users, clients or addresses that have no quota of their own; may be repeated",
    )


def entity_of(options: argparse.Namespace) -> dict[str, str | None]:
    """The entity that the options name, by Kafka's names; None is the default of its type."""
    entity: dict[str, str | None] = {}
    for option, kind in ENTITIES.items():
        name = getattr(options, option)
        ensure(name is None or option not in options.default, f"--{option} and --default {option} exclude each other")
        ensure(name != "", f"--{option} has no name; for those without a quota of their own: --default {option}")
        if name is not None or option in options.default:
            entity[kind] = name
    ensure("ip" not in entity or len(entity) == 1, "an address has quotas of its own; leave --user and --client out")
    return entity


def shown_entity(entity: Mapping[str, str | None]) -> str:
    words = {kind: option for option, kind in ENTITIES.items()}
    return ", ".join(f"{words[kind]} {'(default)' if name is None else name}" for kind, name in entity.items())


# --- set -------------------------------------------------------------------------------------------------------------


def run_set(options: argparse.Namespace) -> int:
    entity = entity_of(options)
    ensure(entity, "nobody is named; say whom with --user, --client, --ip or --default")
    limits = limits_of(options)
    ensure(limits, f"no limit is named; say how much with {', '.join(f'--{each.option}' for each in LIMITS)}")
    check_fit(entity, limits)
    with admin_of(options) as admin:
        admin.alter_client_quotas([(entity, limits)], validate_only=options.validate_only)
    state = "would limit" if options.validate_only else "limited"
    print(f"{state} {shown_entity(entity)}: {', '.join(f'{name} {written(value)}' for name, value in limits.items())}")
    return OK


def limits_of(options: argparse.Namespace) -> dict[str, float]:
    found = {}
    for each in LIMITS:
        text = getattr(options, each.option.replace("-", "_"))
        if text is not None:
            try:
                found[each.name] = each.parse(text)
            except ValueError as error:
                raise Failure(f"--{each.option} {text}: {error}") from None
            ensure(
                found[each.name] > 0,
                f"--{each.option} {text}: a quota is above zero; to take one away: ottla quota remove",
            )
    return found


def check_fit(entity: Mapping[str, str | None], limits: Mapping[str, float]) -> None:
    of_addresses = {"connection_creation_rate"}
    if "ip" in entity:
        ensure(not set(limits) - of_addresses, "an address has a --connection-rate and no other quota")
    else:
        ensure(not set(limits) & of_addresses, "--connection-rate is for addresses; name one with --ip")


# --- list and remove -------------------------------------------------------------------------------------------------


def run_list(options: argparse.Namespace) -> int:
    with admin_of(options) as admin:
        found = admin.describe_client_quotas(_filters(entity_of(options)))
    out = output_of(options)
    if options.format == "json":
        out.value([{"entity": dict(key), "quotas": limits} for key, limits in sorted(found.items(), key=_order)])
    elif found:
        _print(out, found)
    else:
        out.line("no quota")
    return OK


def _print(out: Any, found: Mapping[EntityKey, Mapping[str, float]]) -> None:
    kinds = [(option.upper(), kind) for option, kind in ENTITIES.items() if any(kind in dict(key) for key in found)]
    limits = [each for each in LIMITS if any(each.name in values for values in found.values())]
    rows = [
        (
            *(_cell(dict(key), kind) for _, kind in kinds),
            *(_whole(values.get(each.name)) for each in limits),
        )
        for key, values in sorted(found.items(), key=_order)
    ]
    out.table([*(heading for heading, _ in kinds), *(each.heading for each in limits)], rows)


def _whole(value: float | None) -> float | None:
    return int(value) if value is not None and value == int(value) else value


def _cell(entity: Mapping[str, str | None], kind: str) -> str | None:
    if kind not in entity:
        return None
    name = entity[kind]
    return "(default)" if name is None else name


def _order(item: tuple[EntityKey, Mapping[str, float]]) -> list[tuple[str, bool, str]]:
    return [(kind, name is not None, name or "") for kind, name in item[0]]


def _filters(entity: Mapping[str, str | None]) -> list[QuotaFilter]:
    from ottla.client.admin.quotas import MatchType, QuotaFilter

    return [
        QuotaFilter(kind, MatchType.DEFAULT if name is None else MatchType.EXACT, name) for kind, name in entity.items()
    ]


def run_remove(options: argparse.Namespace) -> int:
    from ottla.client.admin.quotas import key_of

    entity = entity_of(options)
    ensure(entity, "nobody is named; say whom with --user, --client, --ip or --default")
    named = [each.name for each in LIMITS if getattr(options, each.option.replace("-", "_"))]
    with admin_of(options) as admin:
        there = admin.describe_client_quotas(_filters(entity), strict=True).get(key_of(entity), {})
        wanted = [name for name in (named or there) if name in there]
        ensure(wanted or options.if_exists, f"{shown_entity(entity)} has no such quota; nothing was removed")
        if wanted:
            admin.alter_client_quotas([(entity, dict.fromkeys(wanted))])
            print(f"removed {', '.join(wanted)} of {shown_entity(entity)}")
    return OK
