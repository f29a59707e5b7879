"""`ottla cluster`: who is in the cluster and how it is doing."""

from __future__ import annotations

import argparse
from typing import Final

from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, output_of
from ottla.cli.output import OK
from ottla.cli.show import shown_size

EXAMPLES: Final = """\
examples:
  ottla cluster describe
  ottla cluster describe -b broker-1:9092 --format json
"""


def add_verbs(verbs: Verbs) -> None:
    describe = add_verb(verbs, "describe", "brokers, features and partitions in trouble", run_describe, EXAMPLES)
    add_format(describe)


def run_describe(options: argparse.Namespace) -> int:
    with admin_of(options) as admin:
        cluster = admin.describe_cluster()
        features = admin.describe_features()
        directories = admin.describe_log_dirs()
        names = list(admin.list_topics(include_internal=True))
        topics = admin.describe_topics(names) if names else {}
    partitions = [each for topic in topics.values() for each in topic.partitions]
    leads = {node.id: sum(each.leader == node.id for each in partitions) for node in cluster.nodes}
    brokers = []
    for node in cluster.nodes:
        copies = [copy for each in directories[node.id].values() for copy in each.replicas.values()]
        brokers.append(
            {
                "id": node.id,
                "address": str(node.address),
                "rack": node.rack,
                "controller": node.id == cluster.controller,
                "leads": leads[node.id],
                "replicas": len(copies),
                "bytes": sum(copy.size_bytes for copy in copies),
                "failed_directories": sum(each.error is not None for each in directories[node.id].values()),
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
    out.line(f"cluster {shown['cluster_id']}: {len(topics)} topics, {len(partitions)} partitions")
    if shown["offline"] or shown["under_replicated"]:
        out.line(f"  without a leader: {shown['offline']}, with missing replicas: {shown['under_replicated']}")
    levels = ", ".join(f"{name} {level}" for name, level in shown["features"].items())  # type: ignore[attr-defined]
    out.line(f"features: {levels or 'none'}")
    rows = [
        (
            each["id"], each["address"], each["rack"], each["controller"], each["leads"], each["replicas"],
            shown_size(each["bytes"]), each["failed_directories"],  # type: ignore[arg-type]
        )
        for each in brokers
    ]  # fmt: skip
    out.table(("ID", "ADDRESS", "RACK", "CONTROLLER", "LEADS", "REPLICAS", "SIZE", "FAILED DIRS"), rows)
    return OK
