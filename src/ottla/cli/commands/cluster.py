"""`ottla cluster`: who is in the cluster and how it is doing."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, output_of
from ottla.cli.output import OK, counted
from ottla.cli.show import shown_size

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.cluster import LogDirDescription

EXAMPLES: Final = """\
examples:
  ottla cluster describe
  ottla cluster describe -b broker-1:9092 --format json
"""


def add_verbs(verbs: Verbs) -> None:
    describe = add_verb(verbs, "describe", "brokers, features and partitions in trouble", run_describe, EXAMPLES)
    add_format(describe)


def _readable_directories(admin: Admin) -> dict[int, dict[str, LogDirDescription]]:
    """What is on the disks; nothing for who may not ask."""
    from ottla.client.admin.plans import PartlyFailed
    from ottla.errors import ClusterAuthorizationFailed

    try:
        return admin.describe_log_dirs()
    except ClusterAuthorizationFailed:
        return {}
    except PartlyFailed as error:
        if not all(isinstance(each, ClusterAuthorizationFailed) for each in error.failed.values()):
            raise
        return error.succeeded


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
