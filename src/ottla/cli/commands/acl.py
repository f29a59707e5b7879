"""`ottla acl`: who may do what with which topics, groups and other resources, from which hosts.

The options mean what those of Kafka's kafka-acls mean (acl_options.py has the details); its longer names work too.
What would be removed is shown before it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, confirmed, ensure, output_of
from ottla.cli.output import OK, aligned

if TYPE_CHECKING:
    from ottla.client.admin.access import AclBinding
    from ottla.client.admin.admin import Admin

EXAMPLES: Final = """\
examples:
  ottla acl add --allow alice --producer --topic clicks
  ottla acl add --allow bob --consumer --topic clicks --group billing
  ottla acl add --allow carol --operation read,describe --topic logs- --prefixed
  ottla acl add --allow '*' --operation read --topic public --deny mallory --deny-host 10.0.0.7
  ottla acl list
  ottla acl list --topic clicks                  all that is about it, by prefix and wildcard too
  ottla acl list --principal alice
  ottla acl remove --allow alice --topic clicks
  ottla acl remove --topic clicks --yes          every rule about it
"""
HEADINGS: Final = ("RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "PERMISSION", "OPERATION", "HOST")


def add_verbs(verbs: Verbs) -> None:
    add = add_verb(verbs, "add", "allow or deny something", run_add, EXAMPLES)
    _add_whom(add)
    _add_resources(add, "a name is literal or, with --prefixed, the beginning of names; `*` is every name")
    _add_shorthands(add)
    add_format(add)
    listing = add_verb(verbs, "list", "the rules there are", run_list, EXAMPLES)
    listing.add_argument(
        "--principal", action="append", default=[], metavar="USER", help="only those of this user; may be repeated"
    )
    _add_resources(listing, "what applies to a name is listed: literal, prefixed and `*`")
    add_format(listing)
    remove = add_verb(verbs, "remove", "take rules away", run_remove, EXAMPLES)
    _add_whom(remove)
    _add_resources(remove, "only rules with exactly this name; with --prefixed, only prefixed ones")
    _add_shorthands(remove)
    remove.add_argument("--if-exists", action="store_true", help="be content if there is none")
    remove.add_argument("-y", "--yes", "--force", action="store_true", help="do not ask")


def _add_whom(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("whom, and what")
    for names, metavar, help_text in (
        (("--allow", "--allow-principal"), "USER", "who may: NAME, User:NAME, or User:* for everybody"),
        (("--deny", "--deny-principal"), "USER", "who may not, whatever else allows it"),
        (("--operation",), "NAME", "what: read, write, create, delete, alter, describe, ... (all)"),
        (("--host",), "ADDRESS", "from where (`*`: everywhere)"),
        (("--allow-host",), "ADDRESS", "from where, for those of --allow"),
        (("--deny-host",), "ADDRESS", "from where not, for those of --deny"),
    ):
        group.add_argument(*names, action="append", default=[], metavar=metavar, help=help_text)


def _add_resources(parser: argparse.ArgumentParser, note: str) -> None:
    group = parser.add_argument_group("which resources", note)
    for name, metavar in (
        ("--topic", "NAME"),
        ("--group", "NAME"),
        ("--transactional-id", "NAME"),
        ("--delegation-token", "ID"),
        ("--user-principal", "USER"),
    ):
        group.add_argument(name, action="append", default=[], metavar=metavar, help="may be repeated")
    group.add_argument("--cluster", action="store_true", help="the cluster itself")
    group.add_argument("--prefixed", action="store_true", help="the same as --resource-pattern-type prefixed")
    group.add_argument(
        "--resource-pattern-type",
        choices=("literal", "prefixed", "match", "any"),
        help="how names are compared; match and any are for list and remove",
    )


def _add_shorthands(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("shorthands")
    group.add_argument("--producer", action="store_true", help="all that a producer needs for these topics")
    group.add_argument("--consumer", action="store_true", help="all that a consumer needs for these topics and groups")
    group.add_argument("--idempotent", action="store_true", help="with --producer: for brokers before Kafka 2.8")


def run_add(options: argparse.Namespace) -> int:
    from ottla.cli.acl_options import bindings_of

    bindings = bindings_of(options)
    with admin_of(options) as admin:
        admin.create_acls(bindings)
    _print(options, bindings)
    return OK


def run_list(options: argparse.Namespace) -> int:
    from ottla.cli.acl_options import filters_to_list

    filters = filters_to_list(options)
    with admin_of(options) as admin:
        found = dict.fromkeys(binding for each in filters for binding in admin.describe_acls(each))
    if found or options.format == "json":
        _print(options, found)
    else:
        output_of(options).line("no rule; with an authorizer only super users may do anything then")
    return OK


def run_remove(options: argparse.Namespace) -> int:
    from ottla.cli.acl_options import filters_to_remove

    filters = filters_to_remove(options)
    with admin_of(options) as admin:
        found = list(dict.fromkeys(binding for each in filters for binding in admin.describe_acls(each)))
        ensure(found or options.if_exists, "there is no such rule; nothing was removed (ottla acl list shows them)")
        if found and confirmed(_question(found), yes=options.yes):
            _remove(admin, found)
    return OK


def _remove(admin: Admin, found: list[AclBinding]) -> None:
    """Exactly the rules that were shown, not what the filters would mean by now."""
    from ottla.client.admin.access import AclFilter

    filters = [AclFilter(*each) for each in found]
    removed = sum(map(len, admin.delete_acls(filters).values()))
    print(f"removed {removed} rule{'s' * (removed != 1)}")


def _question(found: list[AclBinding]) -> str:
    return "\n".join([*aligned(HEADINGS, _rows(found)), "Remove these?"])


def _print(options: argparse.Namespace, bindings: Iterable[AclBinding]) -> None:
    output_of(options).table(HEADINGS, _rows(bindings))


def _rows(bindings: Iterable[AclBinding]) -> list[tuple[str, ...]]:
    from ottla.cli.acl_options import name_of

    rows = [
        (
            each.resource_type.name.lower().replace("_", " "),
            each.resource_name,
            each.pattern_type.name.lower(),
            each.principal,
            each.permission.name.lower(),
            name_of(each.operation),
            each.host,
        )
        for each in bindings
    ]
    return sorted(rows)
