"""`ottla verify`: is what was written really there? Replicas compared record by record, and a round trip that counts.

1. `replicas` reads every partition from each of its in-sync replicas and compares what they have (comparing.py). It
   needs no more rights than a consumer, and reads everything: choose topics, or --last.
2. `records` writes numbered records into a topic and reads them back: each must come exactly once, and in the order of
   its partition. They stay in the topic: use one that is there for it.
3. The exit code is 1 when something is not as it should be.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, ensure, output_of, sentences, settings_of
from ottla.cli.output import FAILED, OK
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.cli.comparing import Difference
    from ottla.client.admin.admin import Admin
    from ottla.values import TopicPartition

EXAMPLES: Final = """\
examples:
  ottla verify replicas                         every topic
  ottla verify replicas clicks orders:0 --last 10000
  ottla verify records check -n 100000          write so many, and read them all again
"""
READ_BYTES: Final = 4 << 20
RECORD_BYTES: Final = 100


def add_verbs(verbs: Verbs) -> None:
    replicas = add_verb(verbs, "replicas", "do all replicas have the same records?", run_replicas, EXAMPLES)
    replicas.add_argument("partitions", nargs="*", metavar="TOPIC[:N]", help="only these (all topics)")
    replicas.add_argument("--last", type=int, metavar="N", help="only so many offsets before the end of each")
    add_format(replicas)
    records = add_verb(verbs, "records", "does every record come back exactly once?", run_records, EXAMPLES)
    records.add_argument("topic", metavar="TOPIC")
    records.add_argument("-n", "--num-records", type=int, default=1000, metavar="N", help="how many (1000)")
    add_format(records)


# --- replicas --------------------------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """What came out for one partition."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    records: int
    differences: list[Difference]


def run_replicas(options: argparse.Namespace) -> int:
    ensure(options.last is None or options.last > 0, "--last is above zero")
    with admin_of(options) as admin:
        verdicts = list(_verdicts(admin, options))
    out = output_of(options)
    rows = [
        (each.partition.topic, each.partition.partition, ",".join(map(str, each.replicas)), each.records, _words(each))
        for each in verdicts
    ]
    out.table(("TOPIC", "PARTITION", "REPLICAS", "RECORDS", "DIFFERENCES"), rows)
    return FAILED if any(each.differences for each in verdicts) else OK


def _words(verdict: Verdict) -> str:
    from ottla.cli.comparing import SHOWN_LIMIT

    if not verdict.differences:
        return "none" if len(verdict.replicas) > 1 else "none (one replica)"
    found = [f"at {each.offset}: {each.what}" for each in verdict.differences[:SHOWN_LIMIT]]
    more = len(verdict.differences) - SHOWN_LIMIT
    return "; ".join(found + ([f"and {more} more"] if more > 0 else []))


def _verdicts(admin: Admin, options: argparse.Namespace) -> Iterator[Verdict]:
    from ottla.cli.operations.configs import resource
    from ottla.cli.partitions import partitions_of

    there = partitions_of(admin, options.partitions)
    names = sorted({partition.topic for partition in there})
    ids = {name: each.topic_id or bytes(16) for name, each in (admin.describe_topics(names) if names else {}).items()}
    resources = [resource("topic", name) for name in names]
    policies = {
        each.name: entries["cleanup.policy"].value or ""
        for each, entries in (admin.describe_configs(resources) if names else {}).items()
    }
    for partition, state in there.items():
        compacted = "compact" in policies[partition.topic]
        yield _verdict(admin, partition, tuple(sorted(state.in_sync)), ids, compacted, options.last)


def _verdict(
    admin: Admin,
    partition: TopicPartition,
    replicas: tuple[int, ...],
    ids: Mapping[str, bytes],
    is_compacted: bool,
    last: int | None,
) -> Verdict:
    from ottla.cli.comparing import compare
    from ottla.cli.operations.offsets import begins_of, ends_of
    from ottla.client.admin.copies import Copy

    begin, limit = begins_of(admin, [partition])[partition], ends_of(admin, [partition])[partition]
    offset = begin if last is None else max(begin, limit - last)
    records = 0
    differences: list[Difference] = []
    while offset < limit:
        wanted = {Copy(broker, partition): offset for broker in replicas}
        parts = admin.read_copies(wanted, ids, max_bytes=READ_BYTES)
        # A follower hears of the high watermark with its next fetch: what it does not show yet is not compared.
        shown = min([limit, *(each.high_watermark for each in parts.values())])
        data = {copy.broker: each.records for copy, each in parts.items()}
        if shown <= offset:
            break
        found = compare(data, offset, shown, is_compacted=is_compacted)
        records, differences = records + found.records, differences + found.differences
        if found.next_offset is None:
            break
        offset = found.next_offset
    return Verdict(partition, replicas, records, differences)


# --- records ---------------------------------------------------------------------------------------------------------


def run_records(options: argparse.Namespace) -> int:
    ensure(options.num_records > 0, "-n is above zero")
    with admin_of(options) as admin:
        places = _ends(admin, options.topic)
        mark = os.urandom(8).hex()
        sent = _write(options, mark)
        ends = _ends(admin, options.topic)
    with sentences():
        seen = _read(options, mark, places, ends)
    result = judged(sent, seen)
    out = output_of(options)
    if options.format == "json":
        out.value(result)
    else:
        out.line(", ".join(f"{name} {count:,}" for name, count in result.items()))
    return OK if not (result["missing"] or result["twice"] or result["out of order"]) else FAILED


def _ends(admin: Admin, topic: str) -> dict[TopicPartition, int]:
    from ottla.cli.operations.offsets import ends_of
    from ottla.cli.partitions import partitions_of

    return ends_of(admin, partitions_of(admin, [topic]))


def _write(options: argparse.Namespace, mark: str) -> int:
    from ottla.client.producer.producer import Producer

    with sentences(), Producer({"acks": "all", "enable.idempotence": "true", **settings_of(options)}) as producer:
        for number in range(options.num_records):
            name = f"{mark} {number}".encode()
            producer.send(options.topic, name.ljust(RECORD_BYTES), key=name)  # compacted topics take none without a key
        producer.flush()
    return int(options.num_records)


def _read(
    options: argparse.Namespace, mark: str, begin: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, list[int]]:
    """The numbers that came, in the order of each partition; records of others are left out."""
    from ottla.client.consumer.consumer import Consumer
    from ottla.values import TopicPartition

    seen: dict[TopicPartition, list[int]] = {partition: [] for partition in begin}
    left = {partition for partition in ends if begin[partition] < ends[partition]}
    with Consumer({"isolation.level": "read_committed", **settings_of(options)}) as consumer:
        consumer.assign(list(left))
        for partition in left:
            consumer.seek(partition, begin[partition])
        while left:
            found = consumer.poll(options.timeout)
            for record in found:
                word, _, number = (record.value or b"").decode(errors="replace").partition(" ")
                if word == mark:
                    seen[TopicPartition(record.topic, record.partition)].append(int(number))
            still = {partition for partition in left if consumer.position(partition) < ends[partition]}
            ensure(found or still != left, f"no record came for {options.timeout:g} seconds")
            left = still
    return seen


def judged(sent: int, seen: Mapping[Any, list[int]]) -> dict[str, int]:
    """How many were sent, came, are missing, came twice, or came after a later one of their partition."""
    numbers = [number for each in seen.values() for number in each]
    unordered = sum(one > other for each in seen.values() for one, other in pairwise(each))
    return {
        "sent": sent,
        "came back": len(numbers),
        "missing": len(set(range(sent)) - set(numbers)),
        "twice": len(numbers) - len(set(numbers)),
        "out of order": unordered,
    }
