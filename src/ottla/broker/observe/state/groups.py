"""Groups and transactions that this broker coordinates, and how far groups are behind.

1. How far a group is behind needs the high watermarks of partitions, which may be led by other brokers. A broker that
   has a replica knows it; for the rest the leaders are asked first, all of a leader's partitions in one request.
2. Everything is bounded: GROUPS_LIMIT groups and OFFSETS_LIMIT offsets are shown, as many partitions are asked about.
   A partition that nobody knows of now is left out.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ottla.broker.observe.state.readings import Readings, in_steps
from ottla.cluster.topic_names import GROUP_METADATA, SHARE_GROUP_STATE, TRANSACTION_STATE
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.coordinators.groups.group import Group
    from ottla.broker.coordinators.groups.shard import GroupShard
    from ottla.protocol.messages.list_offsets import ListOffsetsRequest

GROUPS_LIMIT: Final = 1_000
OFFSETS_LIMIT: Final = 5_000
ASK_LIMIT_MS: Final = 1_500
LATEST: Final = -1

_MANAGER: Final = "kafka_coordinator_group_groupmetadatamanager_"
_COORDINATOR: Final = "kafka_server_group_coordinator_metrics_"
_SHARES: Final = "kafka_server_share_coordinator_metrics_"
_TRANSACTIONS: Final = "kafka_server_transaction_coordinator_metrics_"
_GROUP: Final = "kminion_kafka_consumer_group_"
_STATES: Final = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
_STATES_OF_KIND: Final = {
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
    "share": ("Empty", "Stable", "Dead"),
    "streams": ("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead"),
}

Ends = Mapping[tuple[str, int], int]


def read_groups(broker: Broker, out: Readings, ends: Ends) -> Iterator[None]:
    """`ends` has the high watermarks of partitions that this broker has no replica of."""
    counts = Counter(dict.fromkeys(("numgroups", "numoffsets", *(f"numgroups{each.lower()}" for each in _STATES)), 0))
    kinds = Counter(dict.fromkeys(("classic", *_STATES_OF_KIND), 0))
    states = {kind: Counter(dict.fromkeys(names, 0)) for kind, names in _STATES_OF_KIND.items()}
    out.none(f"{_GROUP}topic_lag", f"{_GROUP}topic_partition_lag", f"{_GROUP}members", f"{_GROUP}info")
    out.put_all(_COORDINATOR, {"partition_load_time_avg": 0, "partition_load_time_max": 0})
    out.put_all(_COORDINATOR, {"offset_commit_count": 0, "offset_expiration_count": 0})
    partitions = Counter(loading=0, active=0)
    if broker.image.partition_count(GROUP_METADATA):  # or nobody had a group yet, and the code for them is not loaded
        runtime = broker.groups.runtime
        partitions.update(runtime.partition_states())
        _read_loads(f"{_COORDINATOR}partition_load_time_", runtime.load_ms, out)
        _read_written(runtime.written, out)
        for _, shard in list(runtime.shards()):
            for some in in_steps(shard.groups.values()):
                for each in some:
                    _count(each, shard, counts, kinds, states)
                    _read_group(broker, each, shard, ends, out)
                yield
    _read_share_coordinator(broker, out)
    out.put_all(_MANAGER, counts)
    by_state = {f"{kind}_group_count": series for kind, series in states.items()}
    for name, series in {"group_count": kinds, "num_partitions": partitions, **by_state}.items():
        for label, value in series.items():
            out.put(_COORDINATOR + name, value, label)


def _read_share_coordinator(broker: Broker, out: Readings) -> None:
    states, loads, written = Counter(loading=0, active=0), [0, 0.0, 0.0], 0
    if broker.image.partition_count(SHARE_GROUP_STATE):
        runtime = broker.coordinators.share_state.runtime
        states.update(runtime.partition_states())
        loads, written = runtime.load_ms, runtime.written.total()
    _read_loads(f"{_SHARES}partition_load_time_", loads, out)
    out.put(f"{_SHARES}write_total", written)
    for state, count in states.items():
        out.put(f"{_SHARES}num_partitions", count, state)


def _count(
    each: Group,
    shard: GroupShard,
    counts: Counter[str],
    kinds: Counter[str],
    states: Mapping[str, Counter[str]],
) -> None:
    counts["numgroups"] += 1
    counts["numoffsets"] += sum(map(len, shard.offsets.of_group(each.group_id).values()))
    kinds[each.kind.value] += 1
    if each.kind.value == "classic":
        counts[f"numgroups{each.state_name.lower()}"] += 1
    elif each.kind.value in states:
        states[each.kind.value][each.state_name] += 1


def _read_loads(prefix: str, load_ms: list[float], out: Readings) -> None:
    count, total_ms, longest_ms = load_ms
    out.put(f"{prefix}avg", round(total_ms / count, 3) if count else 0)
    out.put(f"{prefix}max", longest_ms)


def _read_written(written: Counter[tuple[type, bool]], out: Readings) -> None:
    from ottla.protocol.stored.offsets import OffsetCommitKey

    out.put(f"{_COORDINATOR}offset_commit_count", written[OffsetCommitKey, False])
    out.put(f"{_COORDINATOR}offset_expiration_count", written[OffsetCommitKey, True])


# -- lag --------------------------------------------------------------------------------------------------------------


def _read_group(broker: Broker, each: Group, shard: GroupShard, ends: Ends, out: Readings) -> None:
    if len(out.values[f"{_GROUP}members"]) >= GROUPS_LIMIT:
        return
    group_id = each.group_id
    out.put(f"{_GROUP}members", len(getattr(each, "members", ())), group_id)
    protocol = str(getattr(each, "protocol_name", None) or "")
    labels = str(broker.id), group_id, protocol, each.listed_protocol_type, each.state_name
    out.put(f"{_GROUP}info", int(each.state_name == "Stable"), *labels)
    for topic, offsets in shard.offsets.of_group(group_id).items():
        out.put(f"{_GROUP}topic_offset_sum", sum(each.offset for each in offsets.values()), group_id, topic)
        for index, committed in offsets.items():
            end = _end_of(broker, (topic, index), ends)
            if end is not None:
                _put_lag(out, group_id, topic, index, max(0, end - committed.offset))


def _put_lag(out: Readings, group_id: str, topic: str, index: int, lag: int) -> None:
    out.add(f"{_GROUP}topic_lag", lag, group_id, topic)
    if len(out.values[f"{_GROUP}topic_partition_lag"]) < OFFSETS_LIMIT:
        out.put(f"{_GROUP}topic_partition_lag", lag, group_id, topic, str(index))


def _end_of(broker: Broker, name: tuple[str, int], ends: Ends) -> int | None:
    partition = broker.replicas.get(name)
    return ends.get(name) if partition is None else partition.high_watermark


async def ends_elsewhere(broker: Broker) -> dict[tuple[str, int], int]:
    """The high watermarks of partitions that groups of this broker read and that it has no replica of."""
    questions = _questions(broker)
    if not questions:
        return {}
    asked = [_ask(broker, name, request) for name, request in questions]
    found: dict[tuple[str, int], int] = {}
    for answer in await asyncio.gather(*asked):
        found |= answer
    return found


def _questions(broker: Broker) -> list[tuple[tuple[str, int], ListOffsetsRequest]]:
    """One request for each leader, with the name of a partition that it leads."""
    by_leader: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for topic, index in sorted(_read_elsewhere(broker))[:OFFSETS_LIMIT]:
        state = broker.image.partition(topic, index)
        if state is not None and broker.link.leads_elsewhere(topic, index):
            by_leader[state.leader].append((topic, index))
    return [(names[0], _question(names)) for names in by_leader.values()]


def _read_elsewhere(broker: Broker) -> set[tuple[str, int]]:
    if not broker.image.partition_count(GROUP_METADATA):
        return set()
    return {
        (topic, index)
        for _, shard in list(broker.groups.runtime.shards())
        for group_id in shard.groups
        for topic, offsets in shard.offsets.of_group(group_id).items()
        for index in offsets
        if broker.replicas.get((topic, index)) is None
    }


def _question(names: list[tuple[str, int]]) -> ListOffsetsRequest:
    from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

    by_topic: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for topic, index in names:
        by_topic[topic].append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
    topics = [ListOffsetsTopic(name=topic, partitions=partitions) for topic, partitions in by_topic.items()]
    return ListOffsetsRequest(replica_id=-1, topics=topics)


async def _ask(broker: Broker, name: tuple[str, int], request: ListOffsetsRequest) -> dict[tuple[str, int], int]:
    from ottla.protocol.messages.list_offsets import ListOffsetsResponse

    try:
        async with broker.clock.timeout(ASK_LIMIT_MS):
            answer = await broker.link.ask_leader(*name, request)
    except (OttlaError, TimeoutError):
        return {}  # a leader that does not answer is no reason to show nothing
    assert isinstance(answer, ListOffsetsResponse)
    return {
        (topic.name, each.partition_index): each.offset
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code
    }


# -- transactions -----------------------------------------------------------------------------------------------------


def read_transactions(broker: Broker, out: Readings) -> Iterator[None]:
    out.none("ottla_transactions_count")
    out.put_all(_TRANSACTIONS, {"partition_load_time_avg": 0, "partition_load_time_max": 0})
    if not broker.image.partition_count(TRANSACTION_STATE):
        return
    runtime = broker.transactions.runtime
    _read_loads(f"{_TRANSACTIONS}partition_load_time_", runtime.load_ms, out)
    for _, shard in list(runtime.shards()):
        for some in in_steps(shard.transactions.values()):
            for each in some:
                out.add("ottla_transactions_count", 1, each.state.text)
            yield
