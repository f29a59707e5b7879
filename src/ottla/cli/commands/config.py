"""`ottla config`: settings of topics, brokers, groups and client metrics, with where each value comes from."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, ensure, output_of, pairs
from ottla.cli.output import OK

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.configs import AlterConfig, ConfigResource

EXAMPLES: Final = """\
examples:
  ottla config describe topic clicks                       what was changed
  ottla config describe topic clicks --all                 everything, defaults too
  ottla config describe broker 0 --all
  ottla config alter topic clicks --set retention.ms=3600000
  ottla config alter broker all --set log.cleaner.threads=2
  ottla config alter group billing --set consumer.session.timeout.ms=60000
  ottla config list group
"""
TYPES: Final = ("topic", "broker", "broker-logger", "group", "client-metrics")


def add_verbs(verbs: Verbs) -> None:
    describe = add_verb(verbs, "describe", "settings in effect, and where they come from", run_describe, EXAMPLES)
    _add_resource(describe)
    describe.add_argument("--all", action="store_true", help="defaults too")
    describe.add_argument("--synonyms", action="store_true", help="the values that would count otherwise")
    add_format(describe)
    alter = add_verb(verbs, "alter", "change settings", run_alter, EXAMPLES)
    _add_resource(alter)
    alter.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="set this; may be repeated")
    alter.add_argument("--delete", action="append", default=[], metavar="NAME", help="back to the default")
    alter.add_argument("--append", action="append", default=[], metavar="NAME=VALUE", help="add to a list")
    alter.add_argument("--subtract", action="append", default=[], metavar="NAME=VALUE", help="take out of a list")
    alter.add_argument("--validate-only", action="store_true", help="only ask whether it would work")
    listing = add_verb(verbs, "list", "what has settings of its own", run_list, EXAMPLES)
    listing.add_argument("type", choices=TYPES)
    add_format(listing)


def _add_resource(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("type", choices=TYPES, help="what kind of thing")
    parser.add_argument("name", help="its name; for brokers an id, or `all`")


def _resource(options: argparse.Namespace) -> ConfigResource:
    from ottla.cli.operations.configs import resource

    everywhere = options.type == "broker" and options.name == "all"
    if options.type in ("broker", "broker-logger") and not everywhere:
        ensure(options.name.isdigit(), f"{options.name!r} is no broker's id: write a number, or `all` for every broker")
    return resource(options.type, "" if everywhere else options.name)


def _check_broker(admin: Admin, resource: ConfigResource) -> None:
    """Only the broker itself knows its settings; one that is not there would be waited for."""
    from ottla.client.admin.configs import ConfigResourceType

    if resource.type not in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) or not resource.name:
        return
    ids = sorted(node.id for node in admin.describe_cluster().nodes)
    ensure(int(resource.name) in ids, f"there is no broker {resource.name}; there is {', '.join(map(str, ids))}")


def changes_of(
    sets: list[str], deletes: list[str], appends: list[str] | None = None, subtracts: list[str] | None = None
) -> list[AlterConfig]:
    """The changes that options ask for; at least one."""
    from ottla.cli.operations.configs import resetting, setting
    from ottla.client.admin.configs import AlterConfig, AlterOperation

    changes = setting(pairs(sets, "--set")) + resetting(deletes)
    for words, operation in ((appends, AlterOperation.APPEND), (subtracts, AlterOperation.SUBTRACT)):
        options_set = pairs(words or [], f"--{operation.name.lower()}")
        changes += [AlterConfig(name, value, operation) for name, value in options_set.items()]
    ensure(changes, "nothing to change: name settings to set or to delete")
    return changes


def run_describe(options: argparse.Namespace) -> int:
    resource = _resource(options)
    with admin_of(options) as admin:
        _check_broker(admin, resource)
        found = admin.describe_configs([resource], include_synonyms=options.synonyms)[resource]
    entries = [each for each in found.values() if options.all or not _is_quiet(each.source.name)]
    rows = []
    for each in sorted(entries, key=lambda each: each.name):
        value = "(hidden)" if each.is_sensitive else each.value
        row: list[object] = [each.name, value, each.source.name.lower().replace("_", " ")]
        if options.synonyms:
            row.append(", ".join(f"{other.name}={other.value}" for other in each.synonyms))
        rows.append(row)
    headings = ("NAME", "VALUE", "SOURCE", "SYNONYMS") if options.synonyms else ("NAME", "VALUE", "SOURCE")
    out = output_of(options)
    if rows or options.format == "json":
        out.table(headings, rows)
    else:
        out.line("nothing is set here; --all shows the defaults")
    return OK


def _is_quiet(source: str) -> bool:
    return source in ("DEFAULT_CONFIG", "STATIC_BROKER_CONFIG")


def run_alter(options: argparse.Namespace) -> int:
    changes = changes_of(options.set, options.delete, options.append, options.subtract)
    resource = _resource(options)
    with admin_of(options) as admin:
        _check_broker(admin, resource)
        admin.incremental_alter_configs({resource: changes}, validate_only=options.validate_only)
    print(f"{'would change' if options.validate_only else 'changed'} {resource}")
    return OK


def run_list(options: argparse.Namespace) -> int:
    from ottla.client.admin.configs import ConfigResourceType

    kind = ConfigResourceType[options.type.upper().replace("-", "_")]
    with admin_of(options) as admin:
        found = admin.list_config_resources([kind])
    output_of(options).table(("NAME",), [(each.name or "(all)",) for each in sorted(found)])
    return OK
