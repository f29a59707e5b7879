"""Groups and clients: commits, coordinators, ownership, order of sends."""

from __future__ import annotations

from tests.planted.bug import Bug

BUGS = (
    Bug(
        "commit-before-it-is-written",
        "broker/coordinators/groups/committing.py",
        "        return [Write(records, (Reply(token, _commit_answer(request, requested)),), failure)]\n",
        "        return [Reply(token, _commit_answer(request, requested)), Write(records, (), lambda _: ())]\n",
        "a commit is acknowledged before the other copies have it",
        "acks=1 for __consumer_offsets",
        needs=("group-eager",),
    ),
    Bug(
        "coordinator-loads-too-little",
        "broker/coordinators/runtime.py",
        "        for batch in place.partition.read_batches():\n",
        "        for batch in place.partition.read_batches():\n"
        "            if batch.next_offset > place.partition.high_watermark:\n"
        "                break\n",
        "a new coordinator loads only what it knows to be committed",
        "KAFKA-19862 and others about loading",
        needs=("group-eager",),
    ),
    Bug(
        "offsets-expire-under-members",
        "broker/coordinators/groups/expiry.py",
        "        if start_ms is None or group.is_subscribed_to(topic):\n            return False\n",
        "        if offset.commit_timestamp_ms + 2_000 < now_ms:\n            return True\n",
        "offsets expire although the group reads the topic",
        "KAFKA-13636",
        needs=("group-eager",),
        brokers=None,
    ),
    Bug(
        "offsets-expire-at-once",
        "broker/coordinators/groups/offset_store.py",
        "        expire_timestamp_ms=value.expire_timestamp,\n",
        "        expire_timestamp_ms=value.commit_timestamp,\n",
        "an offset without a time of its own expires as soon as its group is empty",
        "KAFKA-8069",
        needs=("group-eager",),
        brokers=None,
    ),
    Bug(
        "two-owners",
        "broker/coordinators/groups/consumer/reconciliation.py",
        "        free[topic_id] = {each for each in missing if each in own or goal.is_free(topic_id, each)}\n",
        "        free[topic_id] = {each for each in missing if each not in own or each in own}\n",
        "a member gets a partition that another one has not given back yet",
        "the reconciliation of KIP-848",
        needs=("group-consumer",),
    ),
    Bug(
        "commits-of-former-owners",
        "broker/coordinators/groups/consumer/group.py",
        "        return None if owned.get(partition, generation + 1) <= generation else ",
        "        return None if owned is not None else ",
        "a member with an old epoch, or that was put out, commits for partitions that others own now",
        "KIP-1251",
        needs=("group-consumer",),
        client_kinds=("client-pause",),
        more=(
            (
                "broker/coordinators/groups/consumer/group.py",
                "        member = self.member(member_id)\n        if not transactional",
                "        if member_id not in self.members:\n            return\n"
                "        member = self.member(member_id)\n        if not transactional",
            ),
        ),
    ),
    Bug(
        "retries-get-new-numbers",
        "client/producer/sending/outcomes.py",
        "        self._accumulator.requeue(batch, now_ms)\n        batch.queue.last_error = answer.error\n",
        "        if self._transactions is not None and batch.stamp is not None:\n"
        "            self._transactions.numbers_of(batch.queue.name).forget(batch.stamp)\n"
        "            batch.stamp = None\n"
        "        self._accumulator.requeue(batch, now_ms)\n        batch.queue.last_error = answer.error\n",
        "our producer numbers a batch anew when it sends it again: what had arrived is there twice",
        "retries before KIP-98, on the side of the client",
        brokers=None,
    ),
    Bug(
        "a-buffer-for-two",
        "client/producer/batches/buffer_pool.py",
        "            return self.free.pop()\n        if self.available_bytes",
        "            return self.free[-1]\n        if self.available_bytes",
        "memory of a batch that is on its way is given to another one: records arrive in the wrong partition",
        "KAFKA-19012",
        brokers=None,
        python=True,
        fits=lambda plan: plan.batch_bytes < 1_000,  # only buffers of whole batches are used again
    ),
)
