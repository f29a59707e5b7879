"""kafka-cluster: the cluster's id, its brokers' endpoints, and brokers that are gone for good."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.kafka.arguments import ToolParser
from ottla.cli.kafka.cluster import admin_with, file_settings
from ottla.cli.kafka.ends import fail
from ottla.cli.kafka.java_errors import described, first_failure
from ottla.cli.output import OK
from ottla.errors import OttlaError, UnsupportedVersion

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin


def _parser() -> ToolParser:
    parser = ToolParser(prog="kafka-cluster", description="The Kafka cluster tool.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("cluster-id", "Get information about the ID of a cluster."),
        ("unregister", "Unregister a broker."),
        ("list-endpoints", "List endpoints"),
    ):
        command = commands.add_parser(name, help=text)
        where = command.add_mutually_exclusive_group(required=True)
        where.add_argument("--bootstrap-server", "-b", help="one or more brokers")
        where.add_argument("--bootstrap-controller", "-C", help="controllers of a KRaft cluster")
        command.add_argument("--config", help="old name of --command-config")
        command.add_argument("--command-config", "-c", help="a file with client settings")
        if name == "unregister":
            command.add_argument("--id", "-i", type=int, required=True, help="the broker to unregister")
        if name == "list-endpoints":
            command.add_argument("--include-fenced-brokers", action="store_true", help="fenced brokers too")
    return parser


def run(words: Sequence[str]) -> int:
    options = _parser().parse_args(words)
    settings = _settings(options)
    try:
        with admin_with(settings) as admin:
            if options.command == "cluster-id":
                print(f"Cluster ID: {admin.describe_cluster().cluster_id}")
            elif options.command == "list-endpoints":
                _list_endpoints(admin, options.include_fenced_brokers)
            else:
                _unregister(admin, options.id)
    except (OttlaError, TimeoutError) as error:
        fail(described(first_failure(error)))
    return OK


def _settings(options: argparse.Namespace) -> dict[str, object]:
    path = options.command_config
    if options.config is not None:
        if path is not None:
            fail("--config and --command-config cannot be specified together.")
        print(
            "Option --config has been deprecated and will be removed in a future version. Use --command-config instead."
        )
        path = options.config
    if options.bootstrap_controller is not None:
        fail("This Kafka cluster has no controllers that clients can reach; use --bootstrap-server")
    settings = {} if path is None else file_settings(path)
    return settings | {"bootstrap.servers": options.bootstrap_server}


def _list_endpoints(admin: Admin, with_fenced: bool) -> None:
    try:
        cluster = admin.describe_cluster(include_fenced_brokers=with_fenced)
    except UnsupportedVersion as error:
        print(error.detail or error.sentence)
        return
    host = max(len(node.host) for node in cluster.nodes)
    rack = max((len(node.rack) for node in cluster.nodes if node.rack), default=10)
    rows: list[tuple[object, ...]] = [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")]
    for each in cluster.nodes:
        state = "fenced" if each.id in cluster.fenced else "unfenced"
        rows.append((each.id, each.host, each.port, each.rack or "null", state, "broker"))
    for number, name, port, where, status, kind in rows:
        print(f"{number!s:<10} {name!s:<{host}} {port!s:<10} {where!s:<{rack}} {status!s:<10} {kind!s:<15}")


def _unregister(admin: Admin, broker: int) -> None:
    try:
        admin.unregister_broker(broker)
    except UnsupportedVersion:
        print("The target cluster does not support the broker unregistration API.")
    else:
        print(f"Broker {broker} is no longer registered.")
