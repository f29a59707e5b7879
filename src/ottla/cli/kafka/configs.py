"""kafka-configs: settings of topics, brokers, groups and client metrics; quotas; SCRAM passwords.

1. What is meant is named by --entity-type with --entity-name or --entity-default, or in short by --topic, --broker,
   --user-defaults, ...; users and clients may be named together, for the quota of a client of a user.
2. This file reads the command line; config_changes.py changes, config_views.py shows.
3. A mistake is one sentence on stderr, and code 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.cluster import admin_with, settings_of
from ottla.cli.kafka.ends import fail, warn
from ottla.cli.kafka.java_errors import described, first_failure, message_of
from ottla.cli.kafka.parser import COMMAND_CONFIG, Options, flag, parse, value
from ottla.cli.output import FAILED, OK
from ottla.errors import OttlaError, UnsupportedVersion
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

SUMMARY: Final = (
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, client-metrics or "
    "group"
)
TYPES: Final = ("topics", "clients", "users", "brokers", "ips", "client-metrics", "groups", "broker-loggers")
NAMED: Final = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "client-metrics": "client-metrics",
    "group": "groups",
}
DEFAULTS: Final = {
    "client-defaults": "clients",
    "user-defaults": "users",
    "broker-defaults": "brokers",
    "ip-defaults": "ips",
}
WITH_DEFAULTS: Final = ("users", "clients", "brokers", "ips")
OPTIONS: Final = (
    value("bootstrap-server", "one or more brokers, HOST:PORT,HOST:PORT", "server to connect to"),
    value("bootstrap-controller", "controllers of a KRaft cluster", "controller to connect to"),
    COMMAND_CONFIG,
    flag("alter", "change settings"),
    flag("describe", "show settings"),
    flag("all", "with --describe: all settings, not only those that were changed"),
    value("entity-type", f"what kind of thing: {', '.join(TYPES)}"),
    value("entity-name", "its name; a broker's is its id"),
    flag("entity-default", "the default of all clients, users, brokers or addresses"),
    value("add-config", "settings to set: k1=v1,k2=[v1,v2],k3=v3"),
    value("add-config-file", "a properties file with settings to set"),
    value("delete-config", "settings to put back to their defaults: k1,k2", separator=","),
    *(value(name, f"the same as --entity-type {kind} --entity-name") for name, kind in NAMED.items()),
    *(flag(name, f"the same as --entity-type {kind} --entity-default") for name, kind in DEFAULTS.items()),
)


class Entities(NamedTuple):
    """What is meant: kinds and names side by side; the empty name is the default of the kind."""

    types: list[str]
    names: list[str]


def run(words: Sequence[str]) -> int:
    options = parse("kafka-configs", SUMMARY, OPTIONS, words)
    try:
        entities = _entities(options)
        _check(options, entities)
        with admin_with(settings_of(options)) as admin:
            _work(admin, options, entities)
    except (ValueError, UnsupportedVersion) as error:
        fail(message_of(error))
    except (OttlaError, TimeoutError) as error:
        warn(f"Error while executing config command with args '{' '.join(_public(words))}'")
        warn(f"java.util.concurrent.ExecutionException: {described(first_failure(error), *entities.names)}")
        return FAILED
    return OK


def _public(words: Sequence[str]) -> list[str]:
    """The command line without passwords: this goes to a terminal, and from there into logs."""
    import re

    return [re.sub(r"(password=)[^],]*", r"\1[hidden]", word) for word in words]


def _work(admin: Admin, options: Options, entities: Entities) -> None:
    if options.has("describe"):
        from ottla.cli.kafka.config_views import describe

        describe(admin, entities, everything=options.has("all"))
        return
    if len(entities.types) != len(entities.names):
        raise ValueError("An entity name must be specified for every entity type")
    from ottla.cli.kafka.config_changes import alter, configs_to_add

    alter(admin, entities, configs_to_add(options), [each.strip() for each in options.values("delete-config")])
    kind, name = entities.types[0], entities.names[0]
    if name:
        print(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        print(f"Completed updating default config for {kind} in the cluster.")


def _entities(options: Options) -> Entities:
    names = iter(options.values("entity-name"))
    found = Entities(options.values("entity-type"), [])
    for name in options.order:
        if name in ("entity-name", "entity-default"):
            found.names.append(next(names) if name == "entity-name" else "")
    for name, kind in NAMED.items():
        if options.has(name):
            found.types.append(kind)
            found.names.append(options.text(name))
    for name, kind in DEFAULTS.items():
        if options.has(name):
            found.types.append(kind)
            found.names.append("")
    return found


# --- what fits together ----------------------------------------------------------------------------------------------


def _ensure(condition: object, text: str) -> None:
    if not condition:
        raise ValueError(text)


def _check(options: Options, entities: Entities) -> None:
    if options.has("alter") == options.has("describe"):
        options.wrong("Command must include exactly one action: --describe, --alter")
    options.exclude("describe", ("add-config", "delete-config"))
    types = entities.types
    twice = [kind for place, kind in enumerate(types) if kind in types[:place]]
    _ensure(not twice, f"Duplicate entity type(s) specified: {','.join(twice)}")
    servers = [name for name in ("bootstrap-server", "bootstrap-controller") if options.has(name)]
    _ensure(servers, "Either --bootstrap-server or --bootstrap-controller must be specified.")
    for kind in types:
        _ensure(
            kind in TYPES,
            f"Invalid entity type {kind}, the entity type must be one of {', '.join(TYPES)} with a "
            "--bootstrap-server or --bootstrap-controller argument",
        )
    _ensure(types, "At least one entity type must be specified")
    _ensure(
        len(types) == 1 or set(types) == {"users", "clients"},
        "Only 'users' and 'clients' entity types may be specified together",
    )
    long_names = any(map(options.has, ("entity-name", "entity-type", "entity-default")))
    _ensure(
        not (long_names and any(map(options.has, (*NAMED, *DEFAULTS)))),
        "--entity-{type,name,default} should not be used in conjunction with specific entity flags",
    )
    _ensure(len(servers) == 1, "Only one of --bootstrap-server or --bootstrap-controller can be specified")
    _ensure(
        not options.has("bootstrap-controller"),
        "This Kafka cluster has no controllers that clients can reach; use --bootstrap-server",
    )
    _check_names(entities)
    _check_describe(options, entities) if options.has("describe") else _check_alter(options, entities)


def _check_names(entities: Entities) -> None:
    for name in filter(None, entities.names):
        if "brokers" in entities.types or "broker-loggers" in entities.types:
            _ensure(
                name.removeprefix("-").isdigit(),
                f"The entity name for {entities.types[0]} must be a valid integer broker id, but it is: {name}",
            )
        if "ips" in entities.types:
            _ensure(
                _is_address(name),
                f"The entity name for {entities.types[0]} must be a valid IP or resolvable host, but it is: {name}",
            )


def _is_address(name: str) -> bool:
    import socket

    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True


def _check_describe(options: Options, entities: Entities) -> None:
    kinds = ",".join(entities.types)
    _ensure(
        not options.has("entity-default") or set(entities.types) & set(WITH_DEFAULTS),
        f"--entity-default must not be specified with --describe of {kinds}",
    )
    _ensure(
        "broker-loggers" not in entities.types or any(entities.names),
        f"An entity name must be specified with --describe of {kinds}",
    )


def _check_alter(options: Options, entities: Entities) -> None:
    if set(entities.types) & set(WITH_DEFAULTS):
        _ensure(
            entities.names,
            "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips",
        )
    else:
        _ensure(any(entities.names), f"An entity name must be specified with --alter of {','.join(entities.types)}")
    _ensure(
        not (options.has("add-config") and options.has("add-config-file")),
        "Only one of --add-config or --add-config-file must be specified",
    )
    _ensure(
        any(map(options.has, ("add-config", "add-config-file", "delete-config"))),
        "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter",
    )
