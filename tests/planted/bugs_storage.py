"""Storage: syncs, recovery, producers' sequences, cleaning."""

from __future__ import annotations

from tests.planted.bug import Bug

BUGS = (
    Bug(
        "no-sync-before-ack",
        "storage/log/log_end.py",
        "            syncs.append(active.records.file.sync)\n",
        "            pass\n",
        "a durable topic acknowledges what is not on the disk",
        "NATS 2.12.1 (Jepsen 2025); flush.messages of Kafka",
        brokers=None,
        kinds=("power", "power-at-disk", "power-all"),
    ),
    Bug(
        "recovery-forgets-producers",
        "storage/log/recovery.py",
        "        if self.producers.end_offset != self.log_end_offset or not self.recovered:\n"
        "            yield from self._producers_at(self.log_end_offset)\n",
        "        self.producers.clear(self.log_end_offset)\n",
        "after a restart nobody remembers sequences: what is sent again is there twice",
        "lost producer state, KIP-360",
        brokers=None,
    ),
    Bug(
        "truncation-keeps-producers",
        "storage/log/truncate.py",
        "        self._go_back(now_ms)\n",
        "",
        "sequences of records that were cut off still count",
        "producer state after a truncation",
    ),
    Bug(
        "dedupe-window-of-one",
        "storage/producers/entry.py",
        "        for known in self.batches:\n",
        "        for known in self.batches[-1:]:\n",
        "only the last batch of a producer is known again when it is sent twice, and the producer does not probe",
        "Redpanda 3039, librdkafka 4953",
        brokers=None,
        more=(
            (
                "client/producer/sending/sequences.py",
                "        if numbers.choose_probe(stamp):\n",
                "        if numbers.probe is not None and numbers.choose_probe(stamp):\n",
            ),
        ),
    ),
    Bug(
        "no-duplicate-detection",
        "storage/producers/state.py",
        "            if known is not None:\n                return Duplicate(known)\n",
        "",
        "a batch that is sent again is refused as out of order, and comes with a new epoch",
        "the reason of KIP-98",
        brokers=None,
    ),
    Bug(
        "sequences-are-not-checked",
        "storage/producers/check.py",
        "        if self._origin is AppendOrigin.CLIENT:\n            self._check_sequence(batch)\n",
        "",
        "gaps in a producer's sequences are accepted: retries change the order",
        "retries before KIP-98",
        brokers=None,
    ),
    Bug(
        "epochs-survive-truncation",
        "storage/log/leader_epochs.py",
        "        kept = bisect_left(self._entries, end_offset, key=_start_offset)\n",
        "        kept = bisect_right(self._entries, end_offset, key=_start_offset)\n",
        "the leader epoch whose records were all cut off is still on record",
        "epochs that contradict each other, KIP-101",
    ),
    Bug(
        "compaction-forgets-a-segment",
        "storage/compaction/compaction.py",
        "        for segment, following in zip(old, [*old[1:], None], strict=True):\n",
        "        for segment, following in [*zip(old, [*old[1:], None], strict=True)][-2:]:\n",
        "when the cleaner makes one segment of several, it forgets all but the last two",
        "crabka 528: the cleaner loses data",
        needs=("compact",),
        brokers=None,
    ),
    Bug(
        "no-limit-is-a-limit",
        "storage/log/retention.py",
        "    limit_bytes = log.settings.retention_bytes\n",
        "    limit_bytes = max(log.settings.retention_bytes, 4_000)\n",
        "retention.bytes=-1 is taken for a small number",
        "a sentinel that was compared",
        brokers=None,
    ),
    Bug(
        "delete-records-takes-the-next-too",
        "storage/log/truncate.py",
        "        self._end.start_at(offset)\n",
        "        self._end.start_at(min(offset + 1, self._end.high_watermark))\n",
        "DeleteRecords deletes one record more than it was asked for",
        "an error by one",
        needs=("cut",),
        brokers=None,
    ),
)
