"""kafka-metadata-quorum: who leads and who follows in the quorum of controllers of a KRaft cluster.

A cluster of ours has no such quorum and says so in its answer. Members of a quorum are added and removed with Apache's
own tool: that needs the files of the controller itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.arguments import ToolParser
from ottla.cli.kafka.cluster import admin_with, file_settings
from ottla.cli.kafka.ends import fail
from ottla.cli.kafka.java_errors import described, first_failure
from ottla.cli.kafka.tables import print_table
from ottla.cli.output import OK
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.quorum_health import QuorumInfo, QuorumReplica

HEADINGS: Final = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)
ELSEWHERE: Final = ("add-controller", "remove-controller")
UNKNOWN: Final = -1


def _parser() -> ToolParser:
    parser = ToolParser(prog="kafka-metadata-quorum", description="This tool describes kraft metadata quorum status.")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--bootstrap-server", help="one or more brokers")
    where.add_argument("--bootstrap-controller", help="controllers of a KRaft cluster")
    parser.add_argument("--command-config", help="a file with client settings")
    commands = parser.add_subparsers(dest="command", required=True)
    describe = commands.add_parser("describe", help="Describe the metadata quorum info")
    describe.add_argument("--status", action="store_true", help="a summary")
    describe.add_argument("--replication", action="store_true", help="a line for each replica")
    describe.add_argument("--human-readable", action="store_true", help="with --replication: times as so long ago")
    for name in ELSEWHERE:
        command = commands.add_parser(name, help="not here: needs Apache's own tool")
        command.add_argument("--dry-run", action="store_true", help="change nothing")
        command.add_argument("--controller-id", "-i", type=int, help="the controller")
        command.add_argument("--controller-directory-id", "-d", help="its directory")
    return parser


def run(words: Sequence[str]) -> int:
    options = _parser().parse_args(words)
    settings = {} if options.command_config is None else file_settings(options.command_config)
    _check(options)
    try:
        with admin_with(settings | {"bootstrap.servers": options.bootstrap_server}) as admin:
            if options.status:
                _print_status(admin)
            else:
                _print_replication(admin.describe_metadata_quorum(), options.human_readable)
    except (OttlaError, TimeoutError) as error:
        fail(described(first_failure(error)))
    return OK


def _check(options: argparse.Namespace) -> None:
    if options.command in ELSEWHERE:
        fail(f"{options.command} needs the files of the controller; use Apache's own kafka-metadata-quorum for it")
    if options.status and options.replication:
        fail("Only one of --status or --replication should be specified with describe sub-command")
    if not options.status and not options.replication:
        fail("One of --status or --replication must be specified with describe sub-command")
    if options.status and options.human_readable:
        fail("The option --human-readable is only supported along with --replication")
    if options.bootstrap_controller is not None:
        fail("This command asks brokers, which know as much; use --bootstrap-server")


def _leader(quorum: QuorumInfo) -> QuorumReplica:
    return next(each for each in quorum.voters if each.node_id == quorum.leader)


def _print_status(admin: Admin) -> None:
    cluster_id = admin.describe_cluster().cluster_id
    quorum = admin.describe_metadata_quorum()
    leader = _leader(quorum)
    last = min(quorum.voters, key=lambda each: each.log_end_offset)
    for name, shown in (
        ("ClusterId", cluster_id),
        ("LeaderId", quorum.leader),
        ("LeaderEpoch", quorum.leader_epoch),
        ("HighWatermark", quorum.high_watermark),
        ("MaxFollowerLag", leader.log_end_offset - last.log_end_offset),
        ("MaxFollowerLagTimeMs", _lag_ms(leader, last)),
        ("CurrentVoters", _members(quorum, quorum.voters)),
        ("CurrentObservers", _members(quorum, quorum.observers)),
    ):
        print(f"{name + ':':<24}{shown}")


def _lag_ms(leader: QuorumReplica, last: QuorumReplica) -> int:
    if leader == last:
        return 0
    if leader.last_caught_up_timestamp_ms is None or last.last_caught_up_timestamp_ms is None:
        return UNKNOWN
    return leader.last_caught_up_timestamp_ms - last.last_caught_up_timestamp_ms


def _members(quorum: QuorumInfo, replicas: Iterable[QuorumReplica]) -> str:
    return f"[{', '.join(_member(quorum, each) for each in replicas)}]"


def _member(quorum: QuorumInfo, replica: QuorumReplica) -> str:
    from ottla.values import uuid_to_text

    parts = [f'"id": {replica.node_id}']
    if replica.directory_id is not None:
        parts.append(f'"directoryId": "{uuid_to_text(replica.directory_id)}"')
    if endpoints := quorum.endpoints.get(replica.node_id, ()):
        listed = ", ".join(f'"{each.listener}://{each.host}:{each.port}"' for each in endpoints)
        parts.append(f'"endpoints": [{listed}]')
    return f"{{{', '.join(parts)}}}"


def _print_replication(quorum: QuorumInfo, human_readable: bool) -> None:
    leader = _leader(quorum)
    followers = [each for each in quorum.voters if each.node_id != quorum.leader]
    rows = [
        _row(each, leader, status, human_readable)
        for status, replicas in (("Leader", [leader]), ("Follower", followers), ("Observer", quorum.observers))
        for each in replicas
    ]
    print_table(HEADINGS, rows)


def _row(replica: QuorumReplica, leader: QuorumReplica, status: str, human_readable: bool) -> tuple[object, ...]:
    from ottla.values import ZERO_UUID, uuid_to_text

    return (
        replica.node_id,
        uuid_to_text(replica.directory_id or ZERO_UUID),
        replica.log_end_offset,
        leader.log_end_offset - replica.log_end_offset,
        _moment(replica.last_fetch_timestamp_ms, human_readable),
        _moment(replica.last_caught_up_timestamp_ms, human_readable),
        status,
    )


def _moment(moment_ms: int | None, human_readable: bool) -> str:
    from ottla.clock import SystemClock

    if moment_ms is None:
        return str(UNKNOWN)
    return f"{SystemClock().now_ms() - moment_ms} ms ago" if human_readable else str(moment_ms)
