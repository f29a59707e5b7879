"""kafka-acls: add, list and remove access rules.

What the options mean is decided by acl_options.py, as for `ottla acl`; the command line, its checks and the words that
are printed are Kafka's and stand here.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.cluster import admin_of
from ottla.cli.kafka.java_errors import described, first_failure
from ottla.cli.kafka.parser import COMMAND_CONFIG, Options, flag, parse, value
from ottla.cli.output import FAILED, OK, Failure
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.access import AclBinding, AclFilter
    from ottla.client.admin.admin import Admin

SUMMARY: Final = "This tool helps to manage acls on kafka."
PATTERNS: Final = ("ANY", "MATCH", "LITERAL", "PREFIXED")
RESOURCES: Final = ("topic", "group", "transactional-id", "delegation-token", "user-principal")
OPTIONS: Final = (
    value("bootstrap-server", "one or more brokers, HOST:PORT,HOST:PORT", "server to connect to"),
    value("bootstrap-controller", "controllers of a KRaft cluster", "controller to connect to"),
    COMMAND_CONFIG,
    value("topic", "a topic, or `*` for all", "topic"),
    flag("cluster", "the cluster itself"),
    value("group", "a group, or `*` for all", "group"),
    value("transactional-id", "a transactional id, or `*` for all", "transactional-id"),
    flag("idempotent", "with --producer: for brokers before Kafka 2.8"),
    value("delegation-token", "a delegation token, or `*` for all", "delegation-token"),
    value("resource-pattern-type", "literal or prefixed; any and match to list and to remove", default="LITERAL"),
    flag("add", "add rules"),
    flag("remove", "remove rules"),
    flag("list", "list rules"),
    value("operation", "what: Read, Write, Create, Delete, Alter, Describe, ...", default="All"),
    value("allow-principal", "who may: User:alice, or User:* for everybody", "allow-principal"),
    value("deny-principal", "who may not, whatever else allows it", "deny-principal"),
    value("principal", "with --list: only rules of this principal", "principal"),
    value("allow-host", "from where --allow-principal may", "allow-host"),
    value("deny-host", "from where --deny-principal may not", "deny-host"),
    flag("producer", "all that a producer needs for the topics"),
    flag("consumer", "all that a consumer needs for the topics and groups"),
    flag("force", "do not ask"),
    value("user-principal", "a user as what a rule is about", "user-principal"),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-acls", SUMMARY, OPTIONS, words)
    _check(options)
    try:
        _check_resources(options)
        with admin_of(options) as admin:
            if options.has("add"):
                _add(admin, options)
            elif options.has("remove"):
                _remove(admin, options)
            else:
                _list(admin, options)
    except Failure as error:
        options.wrong(str(error))
    except (OttlaError, TimeoutError, ValueError) as error:
        print(f"Error while executing ACL command: {described(first_failure(error))}")
        return FAILED
    return OK


# --- what fits together ----------------------------------------------------------------------------------------------


def _check(options: Options) -> None:
    servers = sum(map(options.has, ("bootstrap-server", "bootstrap-controller")))
    if servers != 1:
        amount = "Only one" if servers else "One"
        options.wrong(f"{amount} of --bootstrap-server or --bootstrap-controller must be specified")
    if options.has("bootstrap-controller"):
        options.wrong("This Kafka cluster has no controllers that clients can reach; use --bootstrap-server")
    if sum(map(options.has, ("add", "remove", "list"))) != 1:
        options.wrong("Command must include exactly one action: --list, --add, --remove. ")
    options.exclude("list", ("producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal"))
    for role in ("producer", "consumer"):
        options.exclude(role, ("operation", "deny-principal", "deny-host"))
    if options.has("principal") and not options.has("list"):
        options.wrong("The --principal option is only available if --list is set")
    if options.has("producer") and not options.has("topic"):
        options.wrong("With --producer you must specify a --topic")
    if options.has("idempotent") and not options.has("producer"):
        options.wrong("The --idempotent option is only available if --producer is set")
    _check_consumer(options)


def _check_consumer(options: Options) -> None:
    if not options.has("consumer"):
        return
    alone = not options.has("producer") and (options.has("cluster") or options.has("transactional-id"))
    if not options.has("topic") or not options.has("group") or alone:
        options.wrong(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )


def _check_resources(options: Options) -> None:
    pattern = options.text("resource-pattern-type").upper()
    if pattern not in PATTERNS:
        raise ValueError(
            f"Cannot parse argument '{options.text('resource-pattern-type')}' of option resource-pattern-type"
        )
    if options.has("list"):
        return
    if options.has("add") and pattern not in ("LITERAL", "PREFIXED"):
        options.wrong(f"A '--resource-pattern-type' value of '{pattern}' is not valid when adding acls.")
    if not any(map(options.has, (*RESOURCES, "cluster"))):
        options.wrong(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    if options.has("add") and not (options.has("allow-principal") or options.has("deny-principal")):
        options.wrong("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    _check_operations(options)


def _check_operations(options: Options) -> None:
    from ottla.cli.acl_options import NAMES_OF_OPERATIONS, OPERATIONS
    from ottla.client.admin.access import ResourceType
    from ottla.client.admin.operations import AclOperation

    if options.has("producer") or options.has("consumer"):
        return
    _check_principals(options)
    operations = {NAMES_OF_OPERATIONS.get(each.strip().lower()) for each in options.values("operation")}
    kinds = [each for each in RESOURCES if options.has(each)] + ["cluster"] * options.has("cluster")
    for kind in kinds:
        resource = ResourceType["USER" if kind == "user-principal" else kind.upper().replace("-", "_")]
        possible = {*OPERATIONS[resource], AclOperation.ALL}
        if not possible.issuperset(operations):
            names = ", ".join(each.name for each in sorted(possible))
            options.wrong(f"ResourceType {resource.name} only supports operations [{names}]")


def _check_principals(options: Options) -> None:
    for name in ("allow-principal", "deny-principal"):
        for each in options.values(name):
            kind, colon, _ = each.partition(":")
            if not (kind and colon):
                raise ValueError(f"expected a string in format principalType:principalName but got {each.strip()}")


def _meant(options: Options) -> argparse.Namespace:
    """The options under the names that acl_options.py knows."""
    hosts = {
        f"{verb}_host": options.values(f"{verb}-host") or ["*"] * options.has(f"{verb}-principal")
        for verb in ("allow", "deny")
    }
    shorthand = options.has("producer") or options.has("consumer")
    return argparse.Namespace(
        **{name.replace("-", "_"): [each.strip() for each in options.values(name)] for name in RESOURCES},
        **hosts,
        allow=options.values("allow-principal"),
        deny=options.values("deny-principal"),
        principal=[],
        host=[],
        operation=[] if shorthand else options.values("operation"),
        cluster=options.has("cluster"),
        prefixed=False,
        resource_pattern_type=options.text("resource-pattern-type").lower(),
        producer=options.has("producer"),
        consumer=options.has("consumer"),
        idempotent=options.has("idempotent"),
    )


# --- work ------------------------------------------------------------------------------------------------------------


def _add(admin: Admin, options: Options) -> None:
    from ottla.cli.acl_options import bindings_of
    from ottla.client.admin.access import AclFilter

    for pattern, bindings in _by_pattern(bindings_of(_meant(options))).items():
        first = bindings[0]
        about = AclFilter(first.resource_type, first.resource_name, pattern_type=first.pattern_type)
        there = set(admin.describe_acls(about))
        for each in bindings:
            if each in there:
                print(f"Acl (pattern={pattern}, entry={_entry(each)}) already exists.")
        if wanted := [each for each in bindings if each not in there]:
            entries = "\n".join(f"\t{_entry(each)}" for each in wanted)
            print(f"Adding ACLs for resource `{pattern}`: \n {entries}\n")
            admin.create_acls(wanted)


def _remove(admin: Admin, options: Options) -> None:
    from ottla.cli.acl_options import filters_to_remove

    filters: dict[str, list[AclFilter]] = {}
    for each in filters_to_remove(_meant(options)):
        filters.setdefault(_pattern(each), []).append(each)
    for pattern, wanted in filters.items():
        if wanted[0].principal is None:
            question = f"Are you sure you want to delete all ACLs for resource filter `{pattern}`? (y/n)"
            wanted = [each._replace(operation=type(each.operation).ANY) for each in wanted[:1]]
        else:
            entries = "\n".join(f"\t{_entry(each)}" for each in wanted)
            question = f"Are you sure you want to remove ACLs: \n {entries}\n from resource filter `{pattern}`? (y/n)"
        if options.has("force") or _confirmed(question):
            admin.delete_acls(wanted)


def _confirmed(question: str) -> bool:
    print(question, flush=True)
    try:
        return input().strip().lower() == "y"
    except EOFError:
        return False


def _list(admin: Admin, options: Options) -> None:
    from ottla.cli.acl_options import filters_to_list

    found = list(
        dict.fromkeys(each for wanted in filters_to_list(_listed(options)) for each in admin.describe_acls(wanted))
    )
    principals = options.values("principal")
    if not principals:
        _print(found)
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        _print(each for each in found if each.principal == principal)


def _listed(options: Options) -> argparse.Namespace:
    meant = _meant(options)
    if not any(map(options.has, (*RESOURCES, "cluster"))):
        meant.resource_pattern_type = None  # without a resource every rule is meant
    return meant


def _print(bindings: Iterable[AclBinding]) -> None:
    for pattern, of_pattern in _by_pattern(bindings).items():
        entries = "\n".join(f"\t{_entry(each)}" for each in of_pattern)
        print(f"Current ACLs for resource `{pattern}`:\n{entries}\n")


def _by_pattern(bindings: Iterable[AclBinding]) -> dict[str, list[AclBinding]]:
    found: dict[str, list[AclBinding]] = {}
    for each in bindings:
        found.setdefault(_pattern(each), []).append(each)
    return found


def _pattern(rule: AclBinding | AclFilter) -> str:
    name = "<any>" if rule.resource_name is None else rule.resource_name
    return f"ResourcePattern(resourceType={rule.resource_type.name}, name={name}, patternType={rule.pattern_type.name})"


def _entry(rule: AclBinding | AclFilter) -> str:
    principal, host = ("<any>" if each is None else each for each in (rule.principal, rule.host))
    return (
        f"(principal={principal}, host={host}, operation={rule.operation.name}, permissionType={rule.permission.name})"
    )
