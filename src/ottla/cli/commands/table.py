"""`ottla table`: topics as tables of Delta and Iceberg: make, run, look at, check and drop them.

`run` is the worker (ottla.tables.process): a client like any other, for as long as it is not stopped. The other verbs
are for people. Where a topic's table is and how it is made say settings of the topic (ottla.table.*); at a broker that
does not know them, such as Apache Kafka, the same names stand behind --set.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, ensure, pairs
from ottla.cli.output import OK, Failure, hint

EXAMPLES: Final = """\
examples:
  ottla table create clicks --mode json --location /lake/{topic}
  ottla table run                               keep all tables, until Ctrl-C
  ottla table run clicks --once                 bring one up to now, and end
  ottla table describe
  ottla table check clicks                      is each record there, once?
  ottla table drop clicks --yes
"""
RUN_EXAMPLES: Final = """\
examples:
  ottla table run
  ottla table run --schema-registry http://127.0.0.1:8081
  ottla table run clicks orders --once
  ottla table run clicks -b kafka:9092 --set ottla.table.mode=json --set ottla.table.location=s3://lake/{topic}
  ottla table run --storage-file s3.properties
"""


def add_verbs(verbs: Verbs) -> None:
    run = add_verb(verbs, "run", "keep topics as tables: the worker", run_worker, RUN_EXAMPLES)
    run.add_argument("topics", nargs="*", metavar="TOPIC", help="only these (all whose ottla.table.mode is not off)")
    _add_places(run)
    run.add_argument(
        "--schema-registry", metavar="URL", help="for the modes schema_id and schema_latest (default: $OTTLA_REGISTRY)"
    )
    run.add_argument("--once", action="store_true", help="end when the tables have what is there now")
    run.add_argument(
        "--group",
        default="ottla-tables",
        metavar="NAME",
        help="workers of one group share the tables (ottla-tables); `none`: this one has all that it names",
    )
    create = add_verb(verbs, "create", "keep a topic as a table from now on", run_create, EXAMPLES)
    create.add_argument("name", metavar="TOPIC")
    create.add_argument(
        "--mode",
        default="raw",
        choices=("raw", "string", "json", "schema_id", "schema_latest"),
        help="how values become columns (raw)",
    )
    create.add_argument("--table-format", choices=("delta", "iceberg"), help="delta, or iceberg")
    create.add_argument("--location", metavar="WHERE", help="the directory of the table: a path, or s3://bucket/path")
    create.add_argument("-c", "--config", action="append", default=[], metavar="NAME=VALUE", help="a setting")
    describe = add_verb(verbs, "describe", "where tables are, and how far", run_describe, EXAMPLES)
    describe.add_argument("names", nargs="*", metavar="TOPIC", help="all tables without one")
    _add_places(describe)
    add_format(describe)
    check = add_verb(verbs, "check", "is each record of the topic in the table, once?", run_check, EXAMPLES)
    check.add_argument("name", metavar="TOPIC")
    _add_places(check)
    add_format(check)
    drop = add_verb(verbs, "drop", "keep a topic as a table no more, and delete the table", run_drop, EXAMPLES)
    drop.add_argument("name", metavar="TOPIC")
    drop.add_argument("--keep-files", action="store_true", help="only stop: leave the table as it is")
    drop.add_argument("-y", "--yes", action="store_true", help="do not ask")
    _add_places(drop)


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting ottla.table.* that counts instead of the topic's; may be repeated",
    )
    parser.add_argument(
        "--storage-file",
        type=Path,
        metavar="FILE",
        help="options for the store and the catalog, NAME=VALUE in lines (the environment's usual ones)",
    )


def run_worker(options: argparse.Namespace) -> int:
    import signal
    import threading

    from ottla.cli.tables.running import run_tables

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return run_tables(options, stop)


def run_describe(options: argparse.Namespace) -> int:
    from ottla.cli.tables import looking

    return looking.run_describe(options)


def run_check(options: argparse.Namespace) -> int:
    from ottla.cli.tables import looking

    return looking.run_check(options)


def run_drop(options: argparse.Namespace) -> int:
    from ottla.cli.tables import looking

    return looking.run_drop(options)


def run_create(options: argparse.Namespace) -> int:
    from ottla.cli.commands.config import changes_of
    from ottla.client.admin.configs import ConfigResource, ConfigResourceType
    from ottla.errors import InvalidConfig
    from ottla.table_settings import TableSettings

    wanted = {"ottla.table.mode": options.mode}
    if options.table_format:
        wanted["ottla.table.format"] = options.table_format
    if options.location:
        wanted["ottla.table.location"] = _absolute(options.location)
    wanted |= pairs(options.config, "--config")
    with admin_of(options) as admin:
        ensure(options.name in admin.list_topics(), f"there is no topic {options.name}; make it first")
        resource = ConfigResource(ConfigResourceType.TOPIC, options.name)
        known = {entry.name: entry.value for entry in admin.describe_configs([resource])[resource].values()}
        ensure(
            "ottla.table.mode" in known,
            "these brokers do not know the settings of tables. Give them to the worker: ottla table run "
            f"{options.name} {' '.join(f'--set {name}={value}' for name, value in wanted.items())}",
        )
        try:
            settings = TableSettings.of({**known, **wanted})
            location = settings.location_of(options.name)
        except InvalidConfig as error:
            raise Failure(str(error)) from None
        admin.incremental_alter_configs(
            {resource: changes_of([f"{name}={value}" for name, value in wanted.items()], [])}
        )
    print(f"{options.name} is kept as a table of {settings.ottla_table_format} at {location}")
    hint("a worker does it: ottla table run, or ottla broker start --tables")
    return OK


def _absolute(location: str) -> str:
    """A worker may have another directory of its own."""
    return location if "://" in location else str(Path(location).expanduser().absolute())
