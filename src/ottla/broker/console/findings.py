"""What is wrong, or will be: findings of a broker about its cluster and itself, each with a cause and what to do.

1. A finding is a function of facts; nothing is changed or tried. `ottla doctor` walks a client's way from outside and
   sees what no broker can: addresses that cannot be reached, logins that fail.
2. Sorted by how bad it is: bad (something does not work), warning (it will not for long, or not after one failure).
3. FINDINGS_LIMIT of each kind are named, the rest is counted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.console.groups import Group, lag_here
from ottla.broker.console.overview import directories
from ottla.broker.console.survey import NAMES_LIMIT, in_slices
from ottla.broker.http.parts import Json
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.broker.broker import Broker
    from ottla.broker.console.survey import ClusterCounts, Copies

FINDINGS_LIMIT: Final = NAMES_LIMIT
LATE_MS: Final = 60_000
FULL_SHARE: Final = 0.10
BAD: Final = "bad"
WARNING: Final = "warning"


CHECKS: Final = {
    "quorum": "The metadata log has a leader and all of its voters",
    "brokers": "All brokers of the cluster serve",
    "leaders": "Every partition has a leader",
    "writes": "Every partition led here takes writes with acks=all",
    "copies": "All copies have all records",
    "records": "Every record that was looked at can be read",
    "disks": "Log directories work and have room",
    "transactions": "Nobody holds back readers",
    "groups": "Every group that has work has members",
    "settings": "Settings fit the size of the cluster",
}


class Finding(NamedTuple):
    """What is wrong, why, what to do, and the page that shows it; `check` is one of CHECKS."""

    check: str
    severity: str
    what: str
    why: str
    remedy: str
    page: str

    def value(self) -> Json:
        return self._asdict()


def cluster_findings(broker: Broker, counts: ClusterCounts, copies: Copies) -> Iterator[Finding]:
    """Of brokers, partitions and disks."""
    for each in broker.image.brokers.values():
        if not each.is_active:
            yield Finding(
                "brokers",
                WARNING,
                f"broker {each.id} is registered and not serving",
                "It is fenced or going down",
                "Start it again, or move its partitions to others",
                "#/brokers",
            )
    yield from _partitions(counts, copies)
    yield from _damage(broker)
    for directory in directories(broker, copies):
        assert isinstance(directory, dict)
        yield from _directory(directory)


def _partitions(counts: ClusterCounts, copies: Copies) -> Iterator[Finding]:
    for text in counts.leaderless_names:
        yield Finding(
            "leaders",
            BAD,
            f"{text} has no leader",
            "No broker that has all of its records is there; nobody can read or write it",
            "Start the brokers that have a copy",
            f"#/topics/{text.rpartition('-')[0]}",
        )
    for text in copies.refusing_names:
        yield Finding(
            "writes",
            BAD,
            f"{text} refuses writes with acks=all",
            "Fewer copies are in sync than min.insync.replicas wants",
            "Bring the missing brokers back, or lower min.insync.replicas",
            f"#/topics/{text.rpartition('-')[0]}",
        )
    for text, missing in counts.behind_names:
        yield Finding(
            "copies",
            WARNING,
            f"{text} is under-replicated",
            f"Broker {', '.join(map(str, missing))} does not have all of its records",
            "See whether that broker runs, and whether its disk and network keep up",
            f"#/topics/{text.rpartition('-')[0]}",
        )
    if counts.without_leader > FINDINGS_LIMIT or counts.under_replicated > FINDINGS_LIMIT:
        yield Finding(
            "copies",
            WARNING,
            f"{counts.under_replicated:,} partitions are under-replicated, {counts.without_leader:,} have no leader",
            f"{FINDINGS_LIMIT} of each are named here",
            "Begin with the broker that most of them miss",
            "#/brokers",
        )


def _damage(broker: Broker) -> Iterator[Finding]:
    for name, found in list(broker.corruption.found.items())[:FINDINGS_LIMIT]:
        first = next(iter(found.values()))
        yield Finding(
            "records",
            BAD,
            f"{name} has records that cannot be read",
            f"{first.file.name}: {first.error}",
            "It is repaired when another replica is in sync; if there is none, restore it or read on behind it",
            f"#/topics/{name.topic}",
        )


def _directory(directory: Mapping[str, Json]) -> Iterator[Finding]:
    path, failure = directory["path"], directory["failure"]
    total, free = directory["total_bytes"], directory["free_bytes"]
    if failure is not None:
        yield Finding(
            "disks", BAD, f"{path} is offline", str(failure), "Replace the disk and start the broker again", "#/brokers"
        )
    elif isinstance(total, int) and isinstance(free, int) and total and free / total < FULL_SHARE:
        yield Finding(
            "disks",
            WARNING,
            f"the disk of {path} is {100 - round(100 * free / total)} % full",
            "A full disk stops all writes",
            "Shorten retention of large topics, or add room",
            "#/brokers",
        )


def holder_findings(holders: Sequence[Json]) -> Iterator[Finding]:
    """Of transactions that hold back readers."""
    for each in list(holders)[:FINDINGS_LIMIT]:
        assert isinstance(each, dict)
        silent_ms, name = each["silent_ms"], each.get("transactional_id")
        who = f"The producer {name}" if name else f"Producer {each['producer_id']}, which no coordinator knows,"
        if isinstance(silent_ms, int) and silent_ms >= LATE_MS:
            yield Finding(
                "transactions",
                BAD,
                f"readers of {each['topic']}-{each['partition']} are held back at offset {each['last_stable_offset']}",
                f"{who} has a transaction open and wrote nothing for {silent_ms // 1000} s",
                "See whether that program lives; if not, abort its transaction",
                f"#/transactions/{name}" if name else "#/transactions",
            )


async def group_findings(broker: Broker, groups: Sequence[Group]) -> AsyncIterator[Finding]:
    """Of groups with work and nobody who does it."""
    found = 0
    async for each in in_slices(groups):
        if each.coordinator != broker.id or found >= FINDINGS_LIMIT:
            continue
        known = lag_here(broker, each.id)
        lag = 0 if known is None else known.records
        if each.state == "Empty" and lag and not (known and known.note.startswith("spark ")):
            found += 1
            yield Finding(
                "groups",
                WARNING,
                f"group {each.id} is {lag:,} records behind and has no members",
                "Nobody reads with it now; a Spark query that commits to a group has no members either",
                "Start its consumers, or delete the group if it is not used any more",
                f"#/groups/{each.id}",
            )
        elif each.state in ("PreparingRebalance", "CompletingRebalance", "Reconciling") and lag:
            found += 1
            yield Finding(
                "groups",
                WARNING,
                f"group {each.id} is rebalancing",
                "Members come or go, or one does not answer in time",
                "If it stays so, raise max.poll.interval.ms or make the work of one poll shorter",
                f"#/groups/{each.id}",
            )


def setting_findings(broker: Broker, counts: ClusterCounts) -> Iterator[Finding]:
    """Of one machine with settings for several."""
    factor = broker.settings.default_replication_factor
    active = len(broker.image.active_brokers())
    if factor > active:
        yield Finding(
            "settings",
            WARNING,
            f"new topics want {factor} copies and there are {active} brokers",
            "default.replication.factor is larger than the cluster",
            "Lower it, or start more brokers",
            "#/brokers",
        )
    if active > 1 and counts.single_copy:
        yield Finding(
            "settings",
            WARNING,
            f"{counts.single_copy:,} topics have one copy, {counts.single_copy_name} for example",
            "When the broker that has it is gone, so are they",
            "Raise their replication factor by a reassignment",
            "#/topics",
        )
