"""From the options of `ottla acl` to access rules and to filters for them.

1. Resources, principals, hosts and operations mean what they mean to Kafka's kafka-acls: an operation that is left out
   is all of them, a host is every host, and --producer and --consumer stand for Kafka's sets of rules:

       --producer      Write, Describe, Create on each topic; Write, Describe on each transactional id;
                       with --idempotent also IdempotentWrite on the cluster
       --consumer      Read, Describe on each topic; Read on each group

2. A principal without a type is a user: alice is User:alice.
3. When rules are removed, an operation or host that is left out is any: what will be removed is shown before.
4. An operation that a kind of resource does not have is refused here, with those that it has.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from ottla.cli.connecting import ensure
from ottla.cli.output import Failure
from ottla.client.admin.access import AclBinding, AclFilter, AclPermission, PatternType, ResourceType
from ottla.client.admin.operations import AclOperation as Op
from ottla.light_tuples import NamedTuple

CLUSTER_NAME: Final = "kafka-cluster"
RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "delegation_token": ResourceType.DELEGATION_TOKEN,
    "user_principal": ResourceType.USER,
}
_CONFIGS: Final = frozenset({Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS})
OPERATIONS: Final = {
    ResourceType.TOPIC: _CONFIGS | {Op.READ, Op.WRITE, Op.CREATE, Op.DESCRIBE, Op.DELETE, Op.ALTER},
    ResourceType.GROUP: _CONFIGS | {Op.READ, Op.DESCRIBE, Op.DELETE},
    ResourceType.CLUSTER: _CONFIGS | {Op.CREATE, Op.CLUSTER_ACTION, Op.IDEMPOTENT_WRITE, Op.ALTER, Op.DESCRIBE},
    ResourceType.TRANSACTIONAL_ID: frozenset({Op.DESCRIBE, Op.WRITE, Op.TWO_PHASE_COMMIT}),
    ResourceType.DELEGATION_TOKEN: frozenset({Op.DESCRIBE}),
    ResourceType.USER: frozenset({Op.CREATE_TOKENS, Op.DESCRIBE_TOKENS}),
}
NAMES_OF_OPERATIONS: Final = {
    operation.name.replace("_", "").lower(): operation for operation in Op if operation > Op.ANY
}


class Resource(NamedTuple):
    """What a rule is about; `name` None is every name, which only a filter may say."""

    type: ResourceType
    name: str | None
    pattern: PatternType


class Entry(NamedTuple):
    """Who may or may not do what from where; None is anybody, anything, anywhere, which only a filter may say."""

    principal: str | None
    permission: AclPermission
    host: str | None
    operation: Op | None


ANY_ENTRY: Final = Entry(None, AclPermission.ANY, None, None)


# --- what the options name -------------------------------------------------------------------------------------------


def resources_of(options: argparse.Namespace, default_pattern: PatternType) -> list[Resource]:
    """The resources that the options name, in the order of the kinds."""
    pattern = pattern_of(options, default_pattern)
    found = [Resource(kind, name, pattern) for option, kind in RESOURCES.items() for name in getattr(options, option)]
    if options.cluster:
        found.append(Resource(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    return found


def pattern_of(options: argparse.Namespace, default: PatternType) -> PatternType:
    if options.prefixed:
        ensure(
            options.resource_pattern_type in (None, "prefixed"),
            f"--prefixed and --resource-pattern-type {options.resource_pattern_type} contradict each other",
        )
        return PatternType.PREFIXED
    return PatternType[options.resource_pattern_type.upper()] if options.resource_pattern_type else default


def principal_of(word: str) -> str:
    """Type:name; a name alone is a user's."""
    kind, colon, name = word.partition(":")
    if not colon:
        kind, name = "User", word
    ensure(kind and name, f"{word!r} is no principal; write User:NAME, or NAME alone")
    return f"{kind}:{name}"


def operations_of(words: Sequence[str]) -> list[Op]:
    """Operations by Kafka's names in any case, with commas between them or one by one."""
    found = []
    for word in (part.strip() for text in words for part in text.split(",")):
        operation = NAMES_OF_OPERATIONS.get(word.replace("_", "").replace("-", "").lower())
        if operation is None:
            raise Failure(
                f"there is no operation {word!r}; there is {', '.join(map(name_of, NAMES_OF_OPERATIONS.values()))}"
            )
        found.append(operation)
    return list(dict.fromkeys(found))


def name_of(operation: Op) -> str:
    """Kafka's name: DescribeConfigs."""
    return "".join(part.capitalize() for part in operation.name.split("_"))


def check_operations(resource: ResourceType, operations: Sequence[Op]) -> None:
    """Refuse what cannot be done with a kind of resource."""
    possible = OPERATIONS.get(resource)
    for each in operations:
        if possible is not None and each > Op.ALL and each not in possible:
            names = ", ".join(sorted(map(name_of, possible)))
            raise Failure(f"{name_of(each)} cannot be done with a {_kind(resource)}; it has All, {names}")


def _kind(resource: ResourceType) -> str:
    return resource.name.lower().replace("_", " ")


# --- rules to add ----------------------------------------------------------------------------------------------------


def bindings_of(options: argparse.Namespace) -> list[AclBinding]:
    """The rules that `ottla acl add` asks for."""
    ensure(options.allow or options.deny, "nobody is named; say whom with --allow USER or --deny USER")
    check_shorthands(options)
    pattern = pattern_of(options, PatternType.LITERAL)
    ensure(
        pattern in (PatternType.LITERAL, PatternType.PREFIXED), "a rule is literal or prefixed; the others are for list"
    )
    resources = resources_of(options, PatternType.LITERAL)
    ensure(resources, "nothing is named; say what with --topic, --group, --cluster, --transactional-id, ...")
    found = []
    for resource, operations in _wanted(options, resources, operations_of(options.operation) or [Op.ALL]):
        assert resource.name is not None, "an option names it"
        found += [
            AclBinding(resource.type, resource.name, principal, operation, permission, host, resource.pattern)
            for principal, permission, host in _whom(options)
            for operation in operations
        ]
    return list(dict.fromkeys(found))


def _whom(options: argparse.Namespace) -> Iterator[tuple[str, AclPermission, str]]:
    for words, hosts, permission in (
        (options.allow, options.allow_host, AclPermission.ALLOW),
        (options.deny, options.deny_host, AclPermission.DENY),
    ):
        ensure(
            words or not hosts,
            f"a host is named and nobody who may {'not ' * (permission is AclPermission.DENY)}come from there",
        )
        yield from (
            (principal_of(word), permission, host) for word, host in product(words, hosts or options.host or ["*"])
        )


def _wanted(
    options: argparse.Namespace, resources: Sequence[Resource], operations: Sequence[Op]
) -> Iterator[tuple[Resource, Sequence[Op]]]:
    """Each resource with the operations that are meant there."""
    if not (options.producer or options.consumer):
        for each in resources:
            check_operations(each.type, operations)
            yield each, operations
        return
    for each in resources:
        wanted = set()
        if options.producer:
            wanted |= PRODUCER.get(each.type, set())
        if options.consumer:
            wanted |= CONSUMER.get(each.type, set())
        if wanted:
            yield each, sorted(wanted)
    if options.idempotent:
        yield Resource(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL), [Op.IDEMPOTENT_WRITE]


PRODUCER: Final = {
    ResourceType.TOPIC: {Op.WRITE, Op.DESCRIBE, Op.CREATE},
    ResourceType.TRANSACTIONAL_ID: {Op.WRITE, Op.DESCRIBE},
}
CONSUMER: Final = {ResourceType.TOPIC: {Op.READ, Op.DESCRIBE}, ResourceType.GROUP: {Op.READ}}


def check_shorthands(options: argparse.Namespace) -> None:
    """What --producer and --consumer need, and what they exclude: as kafka-acls has it."""
    ensure(options.producer or not options.idempotent, "--idempotent belongs to --producer")
    if not (options.producer or options.consumer):
        return
    ensure(not options.operation, "--producer and --consumer name the operations themselves; leave --operation out")
    ensure(not options.deny and not options.deny_host, "--producer and --consumer only allow; leave --deny out")
    ensure(options.topic, f"--{'producer' if options.producer else 'consumer'} needs a --topic")
    if options.consumer:
        ensure(options.group, "--consumer needs a --group")
        alone = not options.producer
        ensure(
            not (alone and (options.cluster or options.transactional_id)),
            "--consumer has nothing to do with --cluster and --transactional-id; leave them out",
        )


# --- rules to list or to remove --------------------------------------------------------------------------------------


def filters_to_remove(options: argparse.Namespace) -> list[AclFilter]:
    """What `ottla acl remove` means; a resource without principals is all rules about it."""
    check_shorthands(options)
    resources = resources_of(options, PatternType.LITERAL)
    someone = options.allow or options.deny
    ensure(resources or someone, "say which rules: name resources (--topic, ...), or whom (--allow USER, --deny USER)")
    if not resources:
        resources = [Resource(ResourceType.ANY, None, pattern_of(options, PatternType.ANY))]
    operations = operations_of(options.operation) or [Op.ANY]
    whom = list(_whom_to_remove(options)) if someone else [ANY_ENTRY]
    return list(
        dict.fromkeys(
            _filter(resource, entry._replace(operation=operation))
            for resource, wanted in _wanted(options, resources, operations)
            for entry in whom
            for operation in wanted
        )
    )


def _whom_to_remove(options: argparse.Namespace) -> Iterator[Entry]:
    for words, hosts, permission in (
        (options.allow, options.allow_host, AclPermission.ALLOW),
        (options.deny, options.deny_host, AclPermission.DENY),
    ):
        for word, host in product(words, hosts or options.host or [None]):
            yield Entry(principal_of(word), permission, host, None)


def filters_to_list(options: argparse.Namespace) -> list[AclFilter]:
    """What `ottla acl list` shows: everything, or what is about these resources and principals."""
    resources = resources_of(options, PatternType.MATCH)
    if not resources:
        resources = [Resource(ResourceType.ANY, None, pattern_of(options, PatternType.ANY))]
    principals: list[str | None] = [principal_of(word) for word in options.principal]
    return [
        _filter(resource, ANY_ENTRY._replace(principal=principal))
        for resource, principal in product(resources, principals or [None])
    ]


def _filter(resource: Resource, entry: Entry) -> AclFilter:
    return AclFilter(
        resource.type,
        resource.name,
        entry.principal,
        Op.ANY if entry.operation is None else entry.operation,
        entry.permission,
        entry.host,
        resource.pattern,
    )
