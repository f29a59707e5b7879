"""`ottla cluster`: who is in the cluster and how it is doing, and how nodes leave it (cli/quorum)."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, confirmed, output_of
from ottla.cli.output import FAILED, OK, counted, hint
from ottla.cli.show import shown_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.cli.output import Output
    from ottla.cli.quorum.leaving import Departure
    from ottla.cli.quorum.members import Member
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.cluster import LogDirDescription
    from ottla.client.admin.topics import PartitionDescription
    from ottla.values import TopicPartition

EXAMPLES: Final = """\
examples:
  ottla cluster describe
  ottla cluster describe -b broker-1:9092 --format json
  ottla cluster members                                   nodes, voters, who is silent or fenced
"""
INVITE_EXAMPLES: Final = """\
examples:
  ottla cluster invite -b 10.0.0.1:9092                   the line for another machine of a cluster without logins
  ottla cluster invite --data /var/lib/ottla              of a secured one: on the machine that began it
  ottla cluster invite --data /var/lib/ottla --expires 10m --json
"""
LEAVING_EXAMPLES: Final = """\
examples:
  ottla cluster remove 3 --plan                           what would be done, so that node 3 can go for good
  ottla cluster remove 3
  ottla cluster replace 3 --with 4                        node 3 is lost, node 4 has joined: it takes its place
"""
MEMBERS: Final = ("ID", "ROLES", "VOTE", "ADDRESS", "CONTROLLER", "RACK", "LOG END", "LAG", "STATE")
MOVES: Final = ("TOPIC", "PARTITION", "NOW", "THEN")
MOVES_SHOWN: Final = 30


def add_verbs(verbs: Verbs) -> None:
    describe = add_verb(verbs, "describe", "brokers, features and partitions in trouble", run_describe, EXAMPLES)
    add_format(describe)
    members = add_verb(verbs, "members", "nodes: roles, votes, how far and how well they are", run_members, EXAMPLES)
    add_format(members)
    invite = add_verb(verbs, "invite", "the line that makes another machine a node", run_invite, INVITE_EXAMPLES)
    invite.add_argument("--data", metavar="DIR", help="the data directory of a node of this machine (log.dirs)")
    invite.add_argument("--expires", metavar="TIME", help="how long the line is good: 10m, 1h (1h)")
    add_format(invite)
    remove = add_verb(verbs, "remove", "let a node go for good: its vote, its copies", run_remove, LEAVING_EXAMPLES)
    remove.add_argument("node", type=int, metavar="NODE", help="its id, as `ottla cluster members` shows it")
    replace = add_verb(verbs, "replace", "let a node take the place of one that is lost", run_replace, LEAVING_EXAMPLES)
    replace.add_argument("node", type=int, metavar="LOST", help="the id of the node that is lost")
    replace.add_argument("--with", type=int, metavar="NEW", dest="new", required=True, help="the id of the other one")
    for each in (remove, replace):
        each.add_argument("--plan", action="store_true", help="only show what would be done")
        each.add_argument("-y", "--yes", action="store_true", help="do not ask")
        add_format(each)


def _readable_directories(admin: Admin) -> dict[int, dict[str, LogDirDescription]]:
    """What is on the disks; nothing for who may not ask."""
    from ottla.cli.operations.outcomes import permitted
    from ottla.errors import ClusterAuthorizationFailed

    return permitted(admin.describe_log_dirs, ClusterAuthorizationFailed)


def run_describe(options: argparse.Namespace) -> int:
    with admin_of(options) as admin:
        cluster = admin.describe_cluster()
        features = admin.describe_features()
        directories = _readable_directories(admin)
        names = list(admin.list_topics(include_internal=True))
        topics = admin.describe_topics(names) if names else {}
    partitions = [each for topic in topics.values() for each in topic.partitions]
    leads = {node.id: sum(each.leader == node.id for each in partitions) for node in cluster.nodes}
    brokers = []
    for node in cluster.nodes:
        own = directories.get(node.id, {})
        copies = [copy for each in own.values() for copy in each.replicas.values()]
        brokers.append(
            {
                "id": node.id,
                "address": str(node.address),
                "rack": node.rack,
                "controller": node.id == cluster.controller,
                "leads": leads[node.id],
                "replicas": len(copies) if directories else sum(node.id in each.replicas for each in partitions),
                "bytes": sum(copy.size_bytes for copy in copies) if directories else None,
                "failed_directories": sum(each.error is not None for each in own.values()) if directories else None,
            }
        )
    shown = {
        "cluster_id": cluster.cluster_id,
        "brokers": brokers,
        "topics": len(topics),
        "partitions": len(partitions),
        "under_replicated": sum(len(each.in_sync) < len(each.replicas) for each in partitions),
        "offline": sum(each.leader is None for each in partitions),
        "features": {name: level.max for name, level in sorted(features.finalized.items())},
    }
    out = output_of(options)
    if options.format == "json":
        out.value(shown)
        return OK
    out.line(f"cluster {shown['cluster_id']}: {counted(len(topics), 'topic')}, {counted(len(partitions), 'partition')}")
    if shown["offline"] or shown["under_replicated"]:
        out.line(f"  without a leader: {shown['offline']}, with missing replicas: {shown['under_replicated']}")
    levels = ", ".join(f"{name} {level}" for name, level in shown["features"].items())  # type: ignore[attr-defined]
    out.line(f"features: {levels or 'none'}")
    rows = [
        (
            each["id"], each["address"], each["rack"], each["controller"], each["leads"], each["replicas"],
            None if each["bytes"] is None else shown_size(each["bytes"]), each["failed_directories"],  # type: ignore[arg-type]
        )
        for each in brokers
    ]  # fmt: skip
    out.table(("ID", "ADDRESS", "RACK", "CONTROLLER", "LEADS", "REPLICAS", "SIZE", "FAILED DIRS"), rows)
    return OK


# --- nodes -----------------------------------------------------------------------------------------------------------


def run_members(options: argparse.Namespace) -> int:
    from ottla.cli.quorum.departure import members

    with admin_of(options) as admin:
        found = members(admin)
    out = output_of(options)
    if options.format == "json":
        out.value([_member_value(each) for each in found])
        return OK
    rows = [
        (
            each.id, ",".join(each.roles) or None, each.vote, each.address, each.controller_address, each.rack,
            each.end_offset, each.lag, each.state,
        )
        for each in found
    ]  # fmt: skip
    out.table(MEMBERS, rows)
    return OK


def _member_value(member: Member) -> dict[str, object]:
    from ottla.values import uuid_to_text

    return {
        "id": member.id,
        "roles": list(member.roles),
        "vote": member.vote,
        "address": member.address,
        "controller": member.controller_address,
        "rack": member.rack,
        "log_end": member.end_offset,
        "lag": member.lag,
        "silent_ms": member.silent_ms,
        "registered": member.is_registered,
        "fenced": member.is_fenced,
        "directory_id": None if member.directory_id is None else uuid_to_text(member.directory_id),
        "state": member.state,
    }


def run_invite(options: argparse.Namespace) -> int:
    from ottla.cli.quorum.inviting import invite

    line = invite(options)
    out = output_of(options)
    if options.format == "json":
        out.value(line.as_value())
        return OK
    if line.expires_ms is not None:
        hint(f"for one machine, {line.good_until}")
    out.line(line.text)
    return OK


def run_remove(options: argparse.Namespace) -> int:
    from ottla.cli.quorum.leaving import removal

    with admin_of(options) as admin:
        members, partitions = _cluster_now(admin)
        return _depart(admin, removal(members, options.node, partitions), partitions, options)


def run_replace(options: argparse.Namespace) -> int:
    from ottla.cli.quorum.leaving import replacement

    with admin_of(options) as admin:
        members, partitions = _cluster_now(admin)
        return _depart(admin, replacement(members, options.node, options.new, partitions), partitions, options)


def _cluster_now(admin: Admin) -> tuple[list[Member], dict[TopicPartition, PartitionDescription]]:
    from ottla.cli.partitions import partitions_of
    from ottla.cli.quorum.departure import members

    names = list(admin.list_topics(include_internal=True))
    return members(admin), partitions_of(admin, names) if names else {}


def _depart(
    admin: Admin,
    plan: Departure,
    partitions: Mapping[TopicPartition, PartitionDescription],
    options: argparse.Namespace,
) -> int:
    """Show it, ask, do it."""
    from ottla.cli.quorum.departure import depart

    out = output_of(options)
    if options.format == "json":
        out.value(plan.as_value())
    else:
        _show_plan(out, plan, partitions)
    if options.plan or not plan.steps():
        return OK
    if not confirmed(f"Do this for node {plan.node.id}?", yes=options.yes):
        return FAILED
    depart(admin, plan, out.line)
    return OK


def _show_plan(out: Output, plan: Departure, partitions: Mapping[TopicPartition, PartitionDescription]) -> None:
    node = plan.node
    parts = ", ".join([*node.roles, *([] if node.vote is None else [node.vote])])
    out.line(f"node {node.id} ({parts}; {node.state})")
    for number, step in enumerate(plan.steps(), 1):
        out.line(f"  {number}. {step}")
    if not plan.steps():
        out.line("  nothing is left to be done")
    shown = list(plan.moves.items())[:MOVES_SHOWN]
    if shown:
        rows = [(key.topic, key.partition, _ids(partitions[key].replicas), _ids(each)) for key, each in shown]
        out.table(MOVES, rows)
    if len(plan.moves) > MOVES_SHOWN:
        out.line(f"and {len(plan.moves) - MOVES_SHOWN} more; all of them with --plan --json")


def _ids(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))
