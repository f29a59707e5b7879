"""kafka-client-metrics: which metrics clients are asked to push; kept as settings of the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.cluster import admin_of
from ottla.cli.kafka.ends import fail
from ottla.cli.kafka.java_errors import first_failure, message_of
from ottla.cli.kafka.java_maps import hash_order
from ottla.cli.kafka.parser import BOOTSTRAP, COMMAND_CONFIG, Options, flag, parse, value
from ottla.cli.output import FAILED, OK
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.configs import ConfigEntry

SUMMARY: Final = "This tool helps to manipulate and describe client metrics configurations."
ACTIONS: Final = ("alter", "delete", "describe", "list")
KIND: Final = "client-metrics"
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    flag("alter", "change what is asked for"),
    flag("delete", "ask no more"),
    flag("describe", "show what is asked for"),
    flag("list", "list the names"),
    value("name", "the name of what is asked for", "name"),
    flag("generate-name", "make up a name"),
    value("interval", "milliseconds between pushes; empty for the default", "push interval"),
    value("match", "which clients: client_id=a.*,client_software_name=b", "k1=v1,k2=v2", separator=","),
    value("metrics", "beginnings of the names of metrics: a.b,c", "m1,m2", separator=","),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-client-metrics", SUMMARY, OPTIONS, words)
    _check(options)
    action = next(each for each in ACTIONS if options.has(each))
    try:
        with admin_of(options) as admin:
            _RUNS[action](admin, options)
    except (OttlaError, TimeoutError) as error:
        print(f"Error while executing client metrics command : {message_of(first_failure(error))}")
        return FAILED
    return OK


def _check(options: Options) -> None:
    if sum(map(options.has, ACTIONS)) != 1:
        options.wrong("Command must include exactly one action: --alter, --delete, --describe or --list.")
    if not options.has("bootstrap-server"):
        fail("--bootstrap-server must be specified.")
    changes = ("generate-name", "interval", "match", "metrics")
    options.exclude("delete", changes)
    options.exclude("describe", changes)
    options.exclude("list", ("name", *changes))
    if options.has("alter"):
        if options.has("name") == options.has("generate-name"):
            fail("One of --name or --generate-name must be specified with --alter.")
        interval = options.text("interval")
        if interval and not interval.removeprefix("-").isdigit():
            fail("Invalid interval value. Enter an integer, or leave empty to reset.")
    if options.has("delete") and not options.has("name"):
        fail("A client metrics resource name must be specified with --delete.")


def _entries(admin: Admin, name: str) -> Mapping[str, ConfigEntry]:
    from ottla.cli.operations.configs import resource

    wanted = resource(KIND, name)
    return admin.describe_configs([wanted])[wanted]


def _alter(admin: Admin, options: Options) -> None:
    from os import urandom

    from ottla.cli.operations.configs import resetting, resource, setting
    from ottla.values import random_uuid, uuid_to_text

    name = options.value("name") or uuid_to_text(random_uuid(urandom))
    changes = {
        name: ",".join(options.values(option))
        for option, name in (("interval", "interval.ms"), ("metrics", "metrics"), ("match", "match"))
        if options.has(option)
    }
    wanted = setting({each: text for each, text in changes.items() if text})
    wanted += resetting(each for each, text in changes.items() if not text)
    admin.incremental_alter_configs({resource(KIND, name): wanted})
    print(f"Altered client metrics config for {name}.")


def _delete(admin: Admin, options: Options) -> None:
    from ottla.cli.operations.configs import resetting, resource

    name = options.text("name")
    admin.incremental_alter_configs({resource(KIND, name): resetting(_entries(admin, name))})
    print(f"Deleted client metrics config for {name}.")


def _describe(admin: Admin, options: Options) -> None:
    names = admin.list_client_metrics_resources()
    wanted = options.value("name")
    if wanted is not None and wanted not in names:
        print(f"The client metric resource {wanted} doesn't exist and doesn't have dynamic config.")
        return
    for name in names if wanted is None else [wanted]:
        print(f"Client metrics configs for {name} are:")
        entries = _entries(admin, name)
        for setting in hash_order(entries):
            print(f"  {setting}={entries[setting].value}")


def _list(admin: Admin, _: Options) -> None:
    print("\n".join(admin.list_client_metrics_resources()))


_RUNS: Final = {"alter": _alter, "delete": _delete, "describe": _describe, "list": _list}
