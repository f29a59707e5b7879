"""Transactions: coordinator, markers, isolation, offsets."""

from __future__ import annotations

from tests.planted.bug import Bug

TXN = ("transfers",)
COPY = ("copy",)
BUGS = (
    Bug(
        "late-end-of-transaction",
        "broker/coordinators/transactions/ending.py",
        "    if was_rotated or ending.producer_epoch != metadata.producer_epoch:\n"
        "        _refuse_epoch(metadata, ending)\n    if metadata.state",
        "    if metadata.state",
        "an EndTxn of an earlier epoch ends the transaction of now",
        "Jepsen on Bufstream (2024), the reason of KIP-890",
        needs=TXN,
    ),
    Bug(
        "no-fencing-at-init",
        "broker/coordinators/transactions/initialising.py",
        "metadata.initialised(metadata.producer_id, epoch + 1, timeout_ms, now_ms), remembered",
        "metadata.initialised(metadata.producer_id, epoch, timeout_ms, now_ms), remembered",
        "a new producer with the same transactional.id does not fence the one before it",
        "hijack_tx_ids of Redpanda's tests",
        needs=TXN,
    ),
    Bug(
        "no-verification",
        "storage/producers/state.py",
        "        self.verification_required = verification_required\n",
        "        self.verification_required = False\n",
        "a late write opens a transaction that no coordinator knows, and that nobody ends",
        "KAFKA-14402 (hanging transactions)",
        needs=TXN,
    ),
    Bug(
        "complete-after-the-first-marker",
        "broker/coordinators/transactions/markers.py",
        "        self.remaining.discard(partition)\n",
        "        self.remaining.clear()\n",
        "a transaction counts as complete when one partition has its marker",
        "markers that were not written, a cause of hanging transactions",
        needs=TXN,
    ),
    Bug(
        "last-stable-offset-is-ignored",
        "storage/log/log_end.py",
        "        return min(max(unstable, self.log_start_offset), self.high_watermark)\n",
        "        return self.high_watermark\n",
        "readers of what is committed get records of open transactions",
        "Redpanda 3036",
        needs=TXN,
    ),
    Bug(
        "aborted-transactions-are-not-named",
        "broker/fetch/attempt.py",
        "                for one in found.aborted or ()\n",
        "                for one in ()\n",
        "fetch answers do not say which transactions were aborted",
        "Redpanda 3036: aborted reads",
        needs=TXN,
    ),
    Bug(
        "consumer-reads-aborted-records",
        "client/consumer/isolation.py",
        "        self._begin_up_to(last_offset)\n        return producer_id in self._aborted\n",
        "        self._begin_up_to(last_offset)\n        return False\n",
        "our consumer does not drop what was aborted",
        "Redpanda 3036, on the side of the client",
        needs=TXN,
    ),
    Bug(
        "zombies-may-write",
        "storage/producers/check.py",
        "        if batch.epoch < self.entry.epoch and self._origin is not AppendOrigin.REPLICATION:\n"
        "            raise self._stale_epoch(batch.epoch, self.entry.epoch)\n"
        "        if self._origin is AppendOrigin.CLIENT:\n            self._check_sequence(batch)\n",
        "        pass\n",
        "a producer that was fenced still writes, into the transaction of the one that fenced it",
        "the reason of producer epochs, KIP-98",
        needs=TXN,
        more=(
            (
                "storage/producers/check.py",
                "        if entry.transaction_first_offset is not None and entry.epoch == batch.epoch:\n",
                "        if entry.transaction_first_offset is not None:\n",
            ),
            (
                "storage/producers/state.py",
                "entry.transaction_first_offset is not None and entry.epoch == epoch\n",
                "entry.transaction_first_offset is not None\n",
            ),
            (
                "storage/producers/state.py",
                "        if entry is not None and epoch < entry.epoch:\n            raise InvalidProducerEpoch(",
                "        if entry is not None and epoch < 0:\n            raise InvalidProducerEpoch(",
            ),
        ),
    ),
    Bug(
        "transactions-never-time-out",
        "broker/coordinators/transactions/state.py",
        "        return self.state is ONGOING and self.timeout_ms != NEVER_MS and ",
        "        return self.state is EMPTY and self.state is ONGOING and ",
        "the transaction of a producer that died stays open for good",
        "transactions that hang after a crash",
        needs=TXN,
        client_kinds=("client-kill",),
    ),
    Bug(
        "offsets-before-the-marker",
        "broker/coordinators/groups/offset_store.py",
        "        elif producer_id == NO_PRODUCER:\n",
        "        elif producer_id >= NO_PRODUCER:\n",
        "offsets of a transaction count before it is committed",
        "offsets that are not part of the transaction",
        needs=COPY,
    ),
    Bug(
        "offsets-of-aborted-transactions",
        "broker/coordinators/groups/offset_store.py",
        "            if committed and (known is None or pending.record_offset > known.record_offset):\n",
        "            if known is None or pending.record_offset > known.record_offset:\n",
        "offsets of aborted transactions count too: what they read is not copied",
        "offsets that are not part of the transaction",
        needs=COPY,
    ),
    Bug(
        "unstable-offsets-are-told",
        "broker/coordinators/groups/fetching.py",
        "        if require_stable and self._offsets.has_pending(group_id, topic, partition):\n",
        "        if require_stable and group_id is None:\n",
        "a new member gets the offset before the transaction that is still open",
        "the reason of KIP-447",
        needs=COPY,
    ),
    Bug(
        "offsets-of-earlier-generations",
        "broker/coordinators/groups/classic_group.py",
        "            self.check_member(member_id, instance_id)\n            if generation != self.generation:\n",
        "            if generation > self.generation:\n",
        "who was put out of its group commits offsets of partitions that it had in an earlier generation",
        "zombies before KIP-447",
        needs=("group-eager",),
        client_kinds=("client-pause",),
    ),
)
