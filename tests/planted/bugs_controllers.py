"""Bugs of the controller and of who follows it (cluster/quorum_controller, broker/cluster/quorum and kraft), which
whole clusters in the simulation find: `ottla simulate --short --controllers`."""

from __future__ import annotations

from tests.planted.bug import Bug

PARTITIONS = "cluster/quorum_controller/partition_changes.py"
FENCING = "cluster/quorum_controller/fencing.py"
ISR = "cluster/quorum_controller/isr_changes.py"
REGISTRATIONS = "cluster/quorum_controller/registrations.py"
CONTROLLER = "broker/cluster/quorum/quorum_controller.py"
NODE = "broker/cluster/quorum/controller_node.py"
JOINING = "broker/cluster/kraft/joining.py"
WRITING = "cluster/metadata_log/writing.py"
PIPELINE = "cluster/store/pipeline.py"


def _bug(name: str, file: str, old: str, new: str, breaks: str, resembles: str = "") -> Bug:
    return Bug(name, file, old, new, breaks, resembles)


BUGS = (
    _bug(
        "a-leader-without-a-new-epoch",
        PARTITIONS,
        "leader_epoch=before.leader_epoch + names_leader,",
        "leader_epoch=before.leader_epoch,",
        "followers keep what the new leader never had",
    ),
    _bug(
        "anybody-may-lead",
        PARTITIONS,
        "    if election is Election.UNCLEAN:\n        for broker_id in members.replicas:",
        "    if election is not None:\n        for broker_id in members.replicas:",
        "a leader lacks what was acknowledged",
        "unclean.leader.election.enable=true",
    ),
    _bug(
        "who-lost-its-memory-stays-in-sync",
        REGISTRATIONS,
        "    before: list[Change] = [] if is_amended else _without_earlier(image, known, request, rules)\n",
        "    before: list[Change] = []\n",
        "a leader lacks what was acknowledged",
        "KAFKA-15183",
    ),
    _bug(
        "what-was-lost-is-not-told",
        JOINING,
        "previous_broker_epoch=-1 if me.lost_memory else previous_epoch(me, image, logs),",
        "previous_broker_epoch=previous_epoch(me, image, logs),",
        "a leader lacks what was acknowledged",
    ),
    _bug(
        "who-comes-back-leads-nothing",
        FENCING,
        "each.leader == NO_LEADER and broker.id in each.replicas, lambda",
        "each.leader == NO_LEADER and broker.id < 0, lambda",
        "partitions without a leader stay so",
    ),
    _bug(
        "fenced-brokers-keep-their-partitions",
        FENCING,
        "return [*without_broker(image, broker.id, rules), RegisterBroker(replace(broker, fenced=True))]",
        "return [RegisterBroker(replace(broker, fenced=True))]",
        "nobody leads what a broker that is gone led",
    ),
    _bug(
        "anybody-is-taken-for-in-sync",
        ISR,
        "        if broker is None or not broker.is_active:\n",
        "        if broker is None:\n",
        "a broker that stops is taken back, and leads when it has gone",
        "KIP-841",
    ),
    _bug(
        "proposals-of-yesterday-count",
        ISR,
        "    if data.partition_epoch < before.partition_epoch:\n        raise InvalidUpdateVersion\n",
        "",
        "who has left the in-sync set is in it again",
    ),
    _bug(
        "decisions-on-what-is-committed",
        PIPELINE,
        "        return self._pending[-1].image if self._pending else self.image\n",
        "        return self.image\n",
        "a decision is lost under the next",
    ),
    _bug(
        "a-leader-begins-before-it-has-read",
        NODE,
        "return self.following.loader.end_offset > led.epoch_start",
        "return self.following.loader.end_offset > 0",
        "the next leader decides on an image of yesterday",
    ),
    _bug(
        "who-lost-the-vote-stays-active",
        NODE,
        "            if self.controller.is_active and (led is None or raft.epoch != self.controller.epoch):\n",
        "            if self.controller.is_active and raft.epoch < self.controller.epoch:\n",
        "a node that is elected again decides nothing",
    ),
    _bug(
        "the-log-is-read-beyond-its-commits",
        "cluster/raft/raft.py",
        "yield from self.log.batches(offset, self.log.high_watermark)",
        "yield from self.log.batches(offset, self.log.end_offset)",
        "what never was committed is known to some",
    ),
    _bug(
        "producer-ids-are-given-twice",
        CONTROLLER,
        "            return _Decision((change,), block)\n",
        "            return _Decision((), block)\n",
        "two producers with one id",
    ),
    _bug(
        "a-snapshot-forgets-in-sync-sets",
        WRITING,
        "            yield from partition_records(topic.id, 0, topic.partitions, _level(image))\n",
        "            from ottla.light_dataclasses import replace\n"
        "            whole = [replace(each, isr=each.replicas) for each in topic.partitions]\n"
        "            yield from partition_records(topic.id, 0, whole, _level(image))\n",
        "who begins with a snapshot believes that everybody is in sync",
    ),
    _bug(
        "epochs-of-registrations-repeat",
        REGISTRATIONS,
        "epoch=known.epoch if known is not None and is_amended else next_offset,",
        "epoch=known.epoch if known is not None else next_offset,",
        "answers to the life before count for this one",
    ),
)
