"""What must not be in a history, by the names that Jepsen has for it.

    anomalies = check(history.events, replicas={"t-0": {0: b"...", 1: b"..."}})

| name | what was found |
| --- | --- |
| lost-write | a value was acknowledged, a later offset of its partition was read, and nobody ever read the value |
| unseen | a value was acknowledged, and the last reads of the run did not get as far as it |
| vanished-read | a value was read, and the last reads of the run did not find it there |
| duplicate | one value at two offsets |
| inconsistent-offsets | one offset with two values |
| misrouted | a value was read from another partition than it was sent to |
| aborted-read | a value was read whose send had failed for certain, or whose transaction was aborted (G1a) |
| dirty-read | a value was read before anybody had asked for its transaction to be committed (G1b) |
| precommitted-read | the same, by the client whose transaction it is |
| torn-transaction | of the values of one transaction some are there and some are not |
| consume-count | a record that was read in transactions has no copy, or more than one, below the committed offset |
| hanging-transaction | a transaction stayed open long after everybody had ended |
| G0, G1c | transactions that depend on each other in a circle, by writes, by reads |
| nonmonotonic-poll, poll-skip | a consumer went back, or jumped over a value; `int-`: within one poll |
| nonmonotonic-send | of two sends of a producer the later one has the earlier offset; `int-`: within one transaction |
| group-offset-regress, group-offset-lost | the committed offset of a group went back, or away |
| double-ownership | two members of a group read one partition in the same generation, or one that may still commit |
| hw-regress, lso-regress | the end of a partition, for one of the isolation levels, went back |
| deleted-read, log-start-regress | a record that was deleted is there again |
| compaction-lost | the last value of a key is gone |
| replica-divergence | copies of a partition differ below the high watermark |
| share-redelivered | a record came again although it was accepted or rejected, and that was answered |
| share-stale-acknowledged | a delivery was accepted or rejected, and answered, although a later one had begun |
| share-count-regress | a delivery count of a share group went back |
| share-lost, share-stuck, share-not-drained | a record never came, or did not come again until it was acknowledged |
| unreadable | offsets of the only copy could not be read, and no rot had hit them |
| final-read-incomplete, unavailable | after everything was healed a read, or a write, did not succeed |

1. It is a function of the history and touches nothing else; facts.py says which actions it knows.
2. Where the only copy rotted, records that were hit may be missing, and nothing else: no value is another, no offset
   has two values, all others are there.
3. Kafka's transactions are not isolated from each other's writes: G0, and G1c with such edges, are no errors there.
   `strict` reports them all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.simulation.checker.anomaly import Anomaly
from ottla.simulation.checker.cleaning import check_cleaning
from ottla.simulation.checker.cycles import check_cycles
from ottla.simulation.checker.ends import check_copies, check_ending, check_ends
from ottla.simulation.checker.facts import Facts, Hits
from ottla.simulation.checker.groups import check_commits, check_owners
from ottla.simulation.checker.order import check_polls, check_sends
from ottla.simulation.checker.places import check_places
from ottla.simulation.checker.reads import check_passes, check_reads
from ottla.simulation.checker.shares import check_shares
from ottla.simulation.checker.transactions import check_copying, check_transactions
from ottla.simulation.checker.writes import check_writes
from ottla.simulation.history import Event

__all__ = ["Anomaly", "check"]

FORGOTTEN: Final = ("group-offset-", "double-ownership", "share-", "consume-count")


def check(
    events: Sequence[Event],
    *,
    replicas: Mapping[str, Mapping[int, bytes]] | None = None,
    strict: bool = False,
    hits: Hits | None = None,
    forgets: bool = False,
) -> list[Anomaly]:
    """All anomalies of a history, and of the copies at its end: by partition and broker, the bytes below the high
    watermark. `hits` are offsets, by partition, that rotted where there is no other copy; with `forgets` coordinators
    of groups had such a loss, and may not know what was committed (decision 0150)."""
    facts = Facts(events, hits or {})
    found = [
        *check_writes(facts),
        *check_reads(facts),
        *check_places(facts),
        *check_transactions(facts),
        *check_copying(facts),
        *check_cycles(facts, strict=strict),
        *check_polls(facts),
        *check_sends(facts),
        *check_commits(events),
        *check_owners(facts),
        *check_shares(facts),
        *check_ends(facts),
        *check_cleaning(facts),
        *check_copies(replicas or {}),
        *check_ending(facts),
        *check_passes(facts),
    ]
    return [anomaly for anomaly in found if not (forgets and anomaly.name.startswith(FORGOTTEN))]
