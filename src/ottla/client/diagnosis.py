"""What the facts about a cluster mean: each function gets what was found out and gives findings. Nothing is asked here.

A Finding is one step of the doctor: what was looked at, how it is, what was seen, and what to do about it. "failed"
means that a program cannot work, "warning" that it can but somebody should know, "skipped" that an earlier step failed
or nothing was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ottla.errors import ClusterAuthorizationFailed, UnsupportedVersion
from ottla.light_tuples import NamedTuple
from ottla.quorum_health import (
    CLOCK_MS,
    NOBODY_LEADS,
    UNLED,
    QuorumInfo,
    QuorumReplica,
    Trouble,
    shown,
    silent_ms,
    soundness,
    troubles_of,
)
from ottla.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.cluster import ClusterDescription
    from ottla.client.admin.groups import GroupDescription
    from ottla.client.admin.topics import TopicDescription
    from ottla.client.admin.transactions import ProducerState

Result: TypeAlias = Literal["ok", "warning", "failed", "skipped"]

NAMED_LIMIT: Final = 5
REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
# The internal topics, and the broker settings that say how many copies they want.
INTERNAL_TOPICS: Final = {
    "__consumer_offsets": "offsets.topic.replication.factor",
    "__transaction_state": "transaction.state.log.replication.factor",
}


class Finding(NamedTuple):
    """One step and what came out of it."""

    step: str
    result: Result
    what: str
    remedy: str = ""


def named(things: Iterable[object]) -> str:
    """The first few of them, and how many more there are."""
    words = [str(thing) for thing in things]
    more = f" and {len(words) - NAMED_LIMIT} more" if len(words) > NAMED_LIMIT else ""
    return ", ".join(words[:NAMED_LIMIT]) + more


# --- the cluster ---


def judge_controller(cluster: ClusterDescription) -> Finding:
    if cluster.controller is None or cluster.controller < 0:
        remedy = "Topics cannot be made or changed until there is one; look into the logs of the controllers"
        return Finding("controller", "failed", "no controller is known", remedy)
    return Finding("controller", "ok", f"broker {cluster.controller} stands for the controller")


def judge_internal_topic(
    name: str, topic: TopicDescription | None, wanted_replicas: int | None, broker_count: int
) -> Finding:
    """An internal topic that exists must have leaders; one that does not must be possible to make."""
    step = f"topic {name}"
    if topic is not None:
        homeless = [each.partition for each in topic.partitions if each.leader is None]
        if homeless:
            remedy = "Groups or transactions kept there are stuck; start the brokers that have its replicas"
            return Finding(step, "failed", f"{len(homeless)} of its partitions have no leader", remedy)
        return Finding(step, "ok", f"{len(topic.partitions)} partitions, all with a leader")
    if wanted_replicas is not None and wanted_replicas > broker_count:
        setting = INTERNAL_TOPICS[name]
        what = (
            f"it does not exist and cannot be made: {setting}={wanted_replicas}, and there are {broker_count} brokers"
        )
        return Finding(step, "failed", what, f"Set {setting}={broker_count} in the brokers' settings, or start more")
    return Finding(step, "ok", "it does not exist yet; it is made when it is first needed")


def judge_defaults(default_replicas: int | None, min_in_sync: int | None, broker_count: int) -> Finding:
    """Whether topics that are made without saying how many replicas can exist, and be written."""
    step = "replication"
    if default_replicas is None:
        return Finding(step, "skipped", "this user may not see the settings of the brokers")
    if default_replicas > broker_count:
        what = f"default.replication.factor={default_replicas}, and there are {broker_count} brokers"
        return Finding(
            step, "failed", what, "Name a smaller replication factor when making topics, or start more brokers"
        )
    if min_in_sync is not None and min_in_sync > default_replicas:
        what = f"min.insync.replicas={min_in_sync} is above default.replication.factor={default_replicas}"
        return Finding(step, "warning", what, "acks=all cannot succeed for new topics; lower one or raise the other")
    copies = f"{default_replicas} {'copy' if default_replicas == 1 else 'copies'}"
    return Finding(
        step,
        "ok",
        f"{broker_count} {'broker' if broker_count == 1 else 'brokers'}; new topics have {copies} of each partition",
    )


# --- its quorum ---


def judge_quorum(quorum: QuorumInfo, broker_count: int) -> list[Finding]:
    """Whether it decides, and bears a loss; its voters are judged one by one."""
    found = [each for each in troubles_of(quorum, brokers=broker_count) if each.node < 0 or len(quorum.voters) == 1]
    bad = [each for each in found if each.is_bad]
    status = [_of_trouble("quorum", each) for each in bad] or [Finding("quorum", "ok", soundness(quorum))]
    return [*status, *(_of_trouble("number of voters", each) for each in found if not each.is_bad)]


def judge_no_quorum(error: Exception) -> Finding | None:
    """What it means that nobody describes it; None where that is no matter of the quorum."""
    if isinstance(error, UnsupportedVersion):
        return Finding("quorum", "skipped", "this cluster has no metadata log")
    if isinstance(error, ClusterAuthorizationFailed):
        return Finding("quorum", "skipped", "this user may not see it")
    if isinstance(error, UNLED):
        return _of_trouble("quorum", NOBODY_LEADS)
    return None


class Knock(NamedTuple):
    """What became of a connection to a voter's controller listener; `speaks_kafka` is None where that is not known:
    the listener may want TLS or a login that the client has not."""

    place: str
    connected: Finding
    speaks_kafka: bool | None = None


def judge_voter(quorum: QuorumInfo, voter: QuorumReplica, knock: Knock | None, broker_count: int) -> Finding:
    """What the leader says of a voter, with what is found where it listens."""
    step = f"voter {voter.node_id}"
    troubles = [each for each in troubles_of(quorum, brokers=broker_count) if each.node == voter.node_id]
    if not troubles:
        return Finding(step, "ok", _sound(quorum, voter, knock))
    (trouble,) = troubles
    what = trouble.what.replace(step, "it", 1)
    if knock is None or not trouble.is_silence:
        return _of_trouble(step, trouble._replace(what=what))
    if knock.speaks_kafka:
        what += "; it answers there, so it runs, and does not reach the leader or cannot go on"
    else:
        what += f"; {knock.connected.what}"
    return _of_trouble(step, trouble._replace(what=what))


def _sound(quorum: QuorumInfo, voter: QuorumReplica, knock: Knock | None) -> str:
    if voter.node_id == quorum.leader:
        said = "it leads"
    elif quorum.has_times:
        said = f"it asked for the log {shown(silent_ms(quorum, voter) or 0)} ago"
    else:
        said = "the leader does not say when it asked last"
    if knock is None:
        return said
    if knock.connected.result == "ok":
        return f"{said}; somebody listens at {knock.place}"
    return f"{said}; {knock.place} cannot be reached from here, which only brokers and controllers need"


def judge_clock(quorum: QuorumInfo, before_ms: int, after_ms: int) -> Finding | None:
    """The clock of the node that leads, which was read between these times of the clock here; None where it is not
    told. Other clocks nobody tells."""
    leader = quorum.leading
    if leader is None or leader.last_fetch_timestamp_ms is None:
        return None
    step, theirs = f"clock of node {quorum.leader}", leader.last_fetch_timestamp_ms
    ahead_ms = max(theirs - after_ms, 0) - max(before_ms - theirs, 0)
    if abs(ahead_ms) <= CLOCK_MS:
        return Finding(step, "ok", "it is right, as far as the clock here is")
    where = "ahead of" if ahead_ms > 0 else "behind"
    what = (
        f"it is {shown(abs(ahead_ms))} {where} the clock here. Everything works, but by time retention, timestamps, "
        "tokens and certificates are judged differently by machines whose clocks differ"
    )
    return Finding(step, "warning", what, "See that all machines set their clocks by NTP; those of others nobody tells")


def _of_trouble(step: str, trouble: Trouble) -> Finding:
    result: Result = "failed" if trouble.is_bad else "warning"
    return Finding(step, result, f"{trouble.what}. {trouble.still}", trouble.remedy)


# --- a topic ---


def judge_topic(topic: TopicDescription, min_in_sync: int | None) -> list[Finding]:
    """Whether it can be written and read."""
    return [_judge_leaders(topic), _judge_replicas(topic, min_in_sync), *_judge_rights(topic)]


def _judge_leaders(topic: TopicDescription) -> Finding:
    step = f"leaders of {topic.name}"
    homeless = [each.partition for each in topic.partitions if each.leader is None]
    if homeless:
        what = f"partitions {named(homeless)} have no leader; they can be neither written nor read"
        return Finding(step, "failed", what, "Start the brokers that have their replicas")
    return Finding(step, "ok", f"all {len(topic.partitions)} partitions have one")


def _judge_replicas(topic: TopicDescription, min_in_sync: int | None) -> Finding:
    step = f"replicas of {topic.name}"
    needed = min_in_sync or 1
    short = [each.partition for each in topic.partitions if len(each.in_sync) < needed]
    if short:
        what = f"partitions {named(short)} have fewer replicas in sync than min.insync.replicas={needed}"
        return Finding(
            step, "failed", f"{what}; acks=all fails there", "Start the missing brokers, or lower the setting"
        )
    behind = [each.partition for each in topic.partitions if len(each.in_sync) < len(each.replicas)]
    if behind:
        return Finding(
            step, "warning", f"partitions {named(behind)} have replicas that are not in sync", "Look at those brokers"
        )
    return Finding(step, "ok", f"all in sync; acks=all waits for at least {needed}")


def _judge_rights(topic: TopicDescription) -> list[Finding]:
    found = []
    allowed = None if topic.authorized_operations is None else {each.name for each in topic.authorized_operations}
    for verb, right in (("produce", "WRITE"), ("consume", "READ")):
        step = f"{verb} to {topic.name}" if verb == "produce" else f"{verb} from {topic.name}"
        if allowed is None:
            found.append(Finding(step, "skipped", "the broker does not say what this user may do"))
        elif right in allowed:
            found.append(Finding(step, "ok", "this user may"))
        else:
            what = f"this user may not: {right} on the topic is missing"
            found.append(Finding(step, "warning", what, f"Give it with an ACL that allows {right}"))
    return found


def judge_stable(
    ends: Mapping[TopicPartition, OffsetAndTimestamp],
    stables: Mapping[TopicPartition, OffsetAndTimestamp],
    producers: Mapping[TopicPartition, Sequence[ProducerState]],
    ids: Mapping[int, str],
) -> list[Finding]:
    """Partitions whose committed end is held back by an open transaction."""
    found = []
    for name in sorted(ends):
        behind = ends[name].offset - stables[name].offset
        if behind <= 0:
            continue
        holders = [each for each in producers.get(name, ()) if each.transaction_start_offset == stables[name].offset]
        who = f"producer {holders[0].producer_id}" if holders else "a producer"
        if holders and holders[0].producer_id in ids:
            who += f" (transactional.id {ids[holders[0].producer_id]})"
        what = f"read_committed ends {behind} records early, at {stables[name].offset}: {who} has a transaction open"
        remedy = "It ends by itself after transaction.timeout.ms. To end it now: ottla txn --help"
        found.append(Finding(f"transactions in {name}", "warning", what, remedy))
    topics = named(sorted({name.topic for name in ends}))
    return found or [Finding(f"transactions in {topics}", "ok", "no open transaction holds up read_committed")]


# --- a group ---


def judge_group(
    group: GroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata | None],
    ends: Mapping[TopicPartition, OffsetAndTimestamp],
) -> list[Finding]:
    """Members, what they are doing, and how far behind they are."""
    return [_judge_members(group), _judge_lag(group, committed, ends)]


def _judge_members(group: GroupDescription) -> Finding:
    step = f"group {group.group_id}"
    if group.state == "Dead":
        return Finding(step, "warning", "nobody knows this group", "Check the name; ottla group list shows them all")
    if group.state in REBALANCING:
        what = f"it is rebalancing ({group.state}) with {len(group.members)} members"
        remedy = "If that does not end, a member may be over its max.poll.interval.ms, or come and go"
        return Finding(step, "warning", what, remedy)
    if not group.members:
        return Finding(step, "warning", f"it has no members ({group.state}): nobody reads", "Start a consumer")
    idle = [each.client_id for each in group.members if not each.assignment]
    if idle:
        what = f"{len(group.members)} members, {len(idle)} of them without a partition: {named(idle)}"
        return Finding(step, "warning", what, "There are more members than partitions; add partitions or stop some")
    return Finding(step, "ok", f"{group.state} with {len(group.members)} members, {group.type} protocol")


def _judge_lag(
    group: GroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata | None],
    ends: Mapping[TopicPartition, OffsetAndTimestamp],
) -> Finding:
    step = f"lag of {group.group_id}"
    lags = {
        name: max(ends[name].offset - place.offset, 0)
        for name, place in committed.items()
        if place is not None and name in ends
    }
    if not lags:
        return Finding(step, "warning", "it has committed nothing", "auto.offset.reset decides where its members begin")
    worst = max(lags, key=lambda name: lags[name])
    what = f"{sum(lags.values())} records in {len(lags)} partitions; the most in {worst}: {lags[worst]}"
    return Finding(step, "ok", what)
