"""For every API that controllers serve the worst requests that somebody thought of, by somebody who may do everything:
what nodes ask each other is the business of nodes, and one of them may be broken.

QUORUM_CRAFTED has an entry for each; where brokers serve the API, too, it is that of crafted_requests.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.hostile_work.attacked_broker import CLUSTER_ID
from tests.hostile_work.crafted_requests import CRAFTED, Crafted, frame, made, one

from ottla.broker.requests.served import CONTROLLER_APIS
from ottla.protocol.api import APIS
from ottla.values import METADATA_TOPIC_UUID

LOG = "__cluster_metadata"
LARGEST, LARGEST_LONG = 2**31 - 1, 2**63 - 1
MANY = 19_000
LONG_NAME = "x" * 1_000


def storm(name: str, requests: Iterator[bytes]) -> Crafted:
    """As many as there are, before the first answer is read."""
    frames = list(requests)
    return Crafted(name, lambda _: frames)


def _vote(epoch: int, **more: Any) -> Any:
    values = {"last_offset_epoch": 1, "last_offset": LARGEST_LONG, "replica_id": 7, "replica_epoch": epoch, **more}
    return made("Vote", cluster_id=CLUSTER_ID, topics=[{"topic_name": LOG, "partitions": [values]}])


def _begin(epoch: int, endpoints: int) -> Any:
    return made(
        "BeginQuorumEpoch",
        cluster_id=CLUSTER_ID,
        topics=[{"topic_name": LOG, "partitions": [{"leader_id": 7, "leader_epoch": epoch}]}],
        leader_endpoints=[{"name": f"L{n}", "host": LONG_NAME, "port": 1} for n in range(endpoints)],
    )


def _end(epoch: int, candidates: int) -> Any:
    partition = {
        "leader_id": 7,
        "leader_epoch": epoch,
        "preferred_candidates": [{"candidate_id": n, "candidate_directory_id": bytes(16)} for n in range(candidates)],
    }
    return made("EndQuorumEpoch", cluster_id=CLUSTER_ID, topics=[{"topic_name": LOG, "partitions": [partition]}])


def _log_fetch(offset: int, *, replica: int = -1, epoch: int = 1, **more: Any) -> Any:
    partition = {
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "partition_max_bytes": LARGEST,
        "replica_directory_id": abs(replica).to_bytes(16),
    }
    return made(
        "Fetch",
        cluster_id=CLUSTER_ID,
        replica_state={"replica_id": replica, "replica_epoch": -1},
        max_wait_ms=0,
        max_bytes=LARGEST,
        topics=[{"topic_id": METADATA_TOPIC_UUID, "partitions": [partition]}],
        **more,
    )


def _snapshot(position: int, end_offset: int = 0) -> Any:
    partition = {
        "current_leader_epoch": 1,
        "snapshot_id": {"end_offset": end_offset, "epoch": 0},
        "position": position,
    }
    topics = [{"name": LOG, "partitions": [partition]}]
    return made("FetchSnapshot", cluster_id=CLUSTER_ID, replica_id=7, max_bytes=LARGEST, topics=topics)


def _add(voter: int, *, listeners: int = 1) -> Any:
    return made(
        "AddRaftVoter",
        cluster_id=CLUSTER_ID,
        timeout_ms=LARGEST,
        voter_id=voter,
        voter_directory_id=voter.to_bytes(16),
        listeners=[{"name": f"L{n}", "host": "127.0.0.1", "port": 1} for n in range(listeners)],
    )


def _registration(**values: Any) -> Any:
    listeners = [{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 9092, "security_protocol": 0}]
    known = {"broker_id": 7, "cluster_id": CLUSTER_ID, "incarnation_id": b"i" * 16, "listeners": listeners}
    return made("BrokerRegistration", **{**known, **values})


LISTENERS = [{"name": f"L{n}", "host": LONG_NAME, "port": 1, "security_protocol": 0} for n in range(MANY)]
FEATURES = [{"name": f"f{n}", "min_supported_version": 0, "max_supported_version": 1} for n in range(MANY)]
DIRECTORIES = [(1_000 + n).to_bytes(16) for n in range(MANY)]
OF_CONTROLLERS: Mapping[str, Sequence[Crafted] | str] = {
    "Fetch": [
        one("the whole log at once", lambda _: _log_fetch(0)),
        one("from the last offset there can be", lambda _: _log_fetch(LARGEST_LONG)),
        one("in the last epoch there can be", lambda _: _log_fetch(0, epoch=LARGEST)),
        storm("2,000 replicas that nobody knows", (frame(_log_fetch(0, replica=n)) for n in range(2_000))),
    ],
    "Vote": [
        one("in the last epoch there can be", lambda _: _vote(LARGEST)),
        one("in a negative epoch", lambda _: _vote(-LARGEST)),
        one("whether one would be given, in the last epoch", lambda _: _vote(LARGEST, pre_vote=True)),
        storm("500, each in a later epoch", (frame(_vote(epoch)) for epoch in range(1_000, 1_500))),
    ],
    "BeginQuorumEpoch": [
        one("in the last epoch there can be", lambda _: _begin(LARGEST, 1)),
        one("a leader at 19,000 places", lambda turn: _begin(2_000 + turn, MANY)),
        storm("500 leaders", (frame(_begin(epoch, 1)) for epoch in range(3_000, 3_500))),
    ],
    "EndQuorumEpoch": [
        one("in the last epoch there can be", lambda _: _end(LARGEST, 1)),
        one("with 19,000 candidates", lambda turn: _end(4_000 + turn, MANY)),
    ],
    "FetchSnapshot": [
        one("from the last position there can be", lambda _: _snapshot(LARGEST_LONG)),
        one("from a negative position", lambda _: _snapshot(-LARGEST_LONG)),
        one("one that ends beyond everything", lambda _: _snapshot(0, LARGEST_LONG)),
        storm("1,000 positions", (frame(_snapshot(position)) for position in range(1_000))),
    ],
    "AddRaftVoter": [
        storm("500 voters at a place where nobody is", (frame(_add(voter)) for voter in range(100, 600))),
        one("a voter with 19,000 listeners", lambda turn: _add(700 + turn, listeners=MANY)),
    ],
    "RemoveRaftVoter": [
        storm(
            "500 voters that nobody knows",
            (
                frame(made("RemoveRaftVoter", cluster_id=CLUSTER_ID, voter_id=n, voter_directory_id=bytes(16)))
                for n in range(500)
            ),
        )
    ],
    "UpdateRaftVoter": [
        one(
            "19,000 listeners",
            lambda _: made(
                "UpdateRaftVoter",
                cluster_id=CLUSTER_ID,
                voter_id=1,
                voter_directory_id=bytes(16),
                current_leader_epoch=1,
                listeners=[{"name": f"L{n}", "host": LONG_NAME, "port": 1} for n in range(MANY)],
            ),
        )
    ],
    "DescribeQuorum": [
        one(
            "the one log 19,000 times",
            lambda _: made("DescribeQuorum", topics=[{"topic_name": LOG, "partitions": [{}] * MANY}]),
        ),
        one(
            "the one log in 9,000 topics",
            lambda _: made("DescribeQuorum", topics=[{"topic_name": LOG, "partitions": [{}]}] * 9_000),
        ),
    ],
    "BrokerRegistration": [
        one("19,000 listeners", lambda _: _registration(listeners=LISTENERS)),
        one("19,000 features", lambda _: _registration(features=FEATURES)),
        one("19,000 directories", lambda _: _registration(log_dirs=DIRECTORIES)),
    ],
    "BrokerHeartbeat": [
        one(
            "19,000 failed directories",
            lambda _: made("BrokerHeartbeat", broker_id=7, offline_log_dirs=DIRECTORIES, want_fence=True),
        )
    ],
    "ControllerRegistration": [
        one(
            "19,000 listeners",
            lambda turn: made(
                "ControllerRegistration", controller_id=7, incarnation_id=bytes([turn] * 16), listeners=LISTENERS
            ),
        ),
        one(
            "19,000 features",
            lambda turn: made(
                "ControllerRegistration", controller_id=7, incarnation_id=bytes([turn] * 16), features=FEATURES
            ),
        ),
    ],
    "AlterPartition": [
        one(
            "19,000 partitions",
            lambda _: made(
                "AlterPartition",
                broker_id=7,
                topics=[{"topic_id": b"t" * 16, "partitions": [{"partition_index": n} for n in range(MANY)]}],
            ),
        )
    ],
    "AssignReplicasToDirs": [
        one(
            "19,000 directories",
            lambda _: made("AssignReplicasToDirs", broker_id=7, directories=[{"id": each} for each in DIRECTORIES]),
        )
    ],
    "AllocateProducerIds": "two numbers",
    "Envelope": [
        one(
            "an envelope in an envelope",
            lambda _: made("Envelope", request_data=frame(made("Envelope")), client_host_address=b"\x7f\0\0\1"),
        ),
        one(
            "four megabytes of nothing",
            lambda _: made("Envelope", request_data=bytes(4 << 20), client_host_address=bytes(1 << 20)),
        ),
        one(
            "9,000 topics, of a principal that is none",
            lambda _: made(
                "Envelope",
                request_data=frame(made("DeleteTopics", topics=[{"name": f"t{n}"} for n in range(9_000)])),
                request_principal=b"\xff" * 100_000,
                client_host_address=b"\x7f\0\0\1",
            ),
        ),
    ],
}
QUORUM_CRAFTED: Mapping[str, Sequence[Crafted] | str] = {
    name: OF_CONTROLLERS.get(name) or CRAFTED.get(name, "") for name in (APIS[key].name for key in CONTROLLER_APIS)
}
