"""What exists before the probes are sent, made with requests by the administrator of either broker.

world = World(ask)            # ask(request, version) as a super user
world.make(rules)
world.ids                     # of the topics
world.restore()               # topics that a probe has deleted
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from tests.conformance.access.building import Id, built
from tests.conformance.access.probes import streams_join
from tests.conformance.access.rules import (
    FLOWING,
    MODERN,
    MODERN_SHUT,
    OPEN,
    OWNER,
    SHUT,
    SPARED,
    STEADY,
    VICTIM,
    Rule,
)

from ottla.protocol.schema import Message
from ottla.records import BatchBuilder

Ask = Callable[[Message, int], Any]
PATTERN_LITERAL, DENY, ALLOW = 3, 2, 3
TIMEOUT_MS = 600_000
DEADLINE_S = 60
TOPIC_ALREADY_EXISTS = 36
NOT_YET = {3, 5, 14, 15, 16, 51}  # not created, not elected, loading, ending


class World:
    def __init__(self, ask: Ask, pause: Callable[[], None] = lambda: time.sleep(0.02)) -> None:
        self._ask = ask
        self._pause = pause
        self.ids: dict[str, bytes] = {}

    def make(self, rules: Iterable[Rule]) -> None:
        self._make_rules(list(rules))
        self._make_coordinators()
        self._make_topics(OPEN, SHUT, VICTIM, SPARED)
        self._produce()
        for group in (OPEN, SHUT):
            self._commit(group)
        for group in (MODERN, MODERN_SHUT):
            self._join(group)
        self._until_done("StreamsGroupHeartbeat", 0, **streams_join())
        for name in (OPEN, SHUT, STEADY):
            producer = self._until_done("InitProducerId", 5, transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
            if name == STEADY:
                self._begin(producer)

    def restore(self) -> None:
        """Asked of the controller by creating them: the broker may not have heard yet that they are gone."""
        self._make_topics(VICTIM, SPARED)

    def _send(self, api: str, version: int, **values: Any) -> Any:
        return self._ask(built(api, version, values, self.ids), version)

    def _until(self, is_so: Callable[[], Any]) -> Any:
        deadline_s = time.monotonic() + DEADLINE_S
        while not (found := is_so()):
            assert time.monotonic() < deadline_s, "the broker did not get there"
            self._pause()
        return found

    def _until_done(self, api: str, version: int, **values: Any) -> Any:
        def done() -> Any:
            answer = self._send(api, version, **values)
            assert answer.error_code in {0, *NOT_YET}, answer
            return answer if not answer.error_code else None

        return self._until(done)

    def _make_rules(self, rules: list[Rule]) -> None:
        creations = [
            {
                "resource_type": each.resource,
                "resource_name": each.name,
                "resource_pattern_type": PATTERN_LITERAL,
                "principal": f"User:{each.user}",
                "host": "*",
                "operation": each.operation,
                "permission_type": ALLOW if each.is_allowed else DENY,
            }
            for each in rules
        ]
        answer = self._send("CreateAcls", 3, creations=creations)
        assert not [each for each in answer.results if each.error_code]

    def _make_coordinators(self) -> None:
        for kind in (0, 1):
            for name in (OPEN, SHUT, MODERN, MODERN_SHUT, FLOWING, STEADY):
                self._until(lambda kind=kind, name=name: self._has_coordinator(name, kind))

    def _has_coordinator(self, key: str, kind: int) -> bool:
        return not self._send("FindCoordinator", 6, coordinator_keys=[key], key_type=kind).coordinators[0].error_code

    def _make_topics(self, *names: str) -> None:
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
        for each in self._send("CreateTopics", 7, topics=topics, timeout_ms=30_000).topics:
            assert each.error_code in {0, TOPIC_ALREADY_EXISTS}, each
            if not each.error_code:
                self.ids[each.name] = each.topic_id
        wanted = {name: self.ids[name] for name in names}
        self._until(lambda: self._ids_of(*names) == wanted)

    def _ids_of(self, *names: str) -> dict[str, bytes | None]:
        """None until its leader is known."""
        asked = [{"name": name} for name in names]
        answer = self._send("Metadata", 12, topics=asked, allow_auto_topic_creation=False)
        return {
            each.name: each.topic_id if not each.error_code and not each.partitions[0].error_code else None
            for each in answer.topics
        }

    def _produce(self) -> None:
        """So that each topic has a producer to be described."""
        batch = BatchBuilder(producer_id=0, producer_epoch=0, base_sequence=0)
        batch.append(1_700_000_000_000, b"key", b"value")
        data = [{"index": 0, "records": bytes(batch.close())}]
        topics = [{"name": name, "partition_data": data} for name in (OPEN, SHUT)]

        def produced() -> bool:
            """A batch that came again is known by its number; a leader may not have heard of its office yet."""
            answer = self._send("Produce", 12, acks=-1, timeout_ms=30_000, topic_data=topics)
            return not any(each.partition_responses[0].error_code for each in answer.responses)

        self._until(produced)

    def _commit(self, group: str) -> None:
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        topics = [{"topic_id": Id(name), "partitions": [partition]} for name in (OPEN, SHUT)]

        def committed() -> bool:
            answer = self._send("OffsetCommit", 10, group_id=group, member_id="", topics=topics)
            return not any(each.partitions[0].error_code for each in answer.topics)

        self._until(committed)

    def _join(self, group: str) -> None:
        """A member of the new protocol, with its first assignment."""
        joining = {"subscribed_topic_names": [OPEN], "rebalance_timeout_ms": TIMEOUT_MS, "topic_partitions": []}
        beat = {"group_id": group, "member_id": f"member-of-{group}", "member_epoch": 0, **joining}
        self._until_done("ConsumerGroupHeartbeat", 1, **beat)

    def _begin(self, producer: Any) -> None:
        topics = [{"name": name, "partitions": [0]} for name in (OPEN, SHUT)]
        identity = {
            "v3_and_below_transactional_id": STEADY,
            "v3_and_below_producer_id": producer.producer_id,
            "v3_and_below_producer_epoch": producer.producer_epoch,
        }

        def added() -> bool:
            answer = self._send("AddPartitionsToTxn", 3, **identity, v3_and_below_topics=topics)
            found = answer.results_by_topic_v3_and_below
            return not any(each.results_by_partition[0].partition_error_code for each in found)

        self._until(added)

    def make_token(self) -> None:
        """A token of somebody else's; where tokens are switched on."""
        owner = {"owner_principal_type": "User", "owner_principal_name": OWNER}
        answer = self._send("CreateDelegationToken", 3, **owner, renewers=[], max_lifetime_ms=86_400_000)
        assert not answer.error_code, answer
