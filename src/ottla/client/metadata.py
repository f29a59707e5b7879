"""What this client wants to know of the cluster, what it knows, and when it asks next. Plain: no socket, no clock.

1. Reading is free of locks: every answer makes a new frozen view (cluster_view.py), so a caller's thread may read while
   the loop works. `want` may also be called from there, and then the loop must be woken when it says True; everything
   else belongs to the loop.
2. The next question is due when somebody asked for it, when a wanted topic is new, or when the last answer is
   `max_age_ms` old; but after failures, and after answers that brought nothing new, only when a growing wait is over.
3. A new topic is asked for alone; what was known of the others stays. Every other question is about all wanted topics.
   A topic is wanted until it was not used for `max_idle_ms` (producers), or until another list is given (consumers).
4. Before the first answer the brokers are the bootstrap addresses, as nodes with negative ids. `rebootstrap` goes back
   to them: what is known stays readable until the next answer, which then replaces everything, epochs too (KIP-899).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from ottla.client.cluster_view import ClusterView, PartitionInfo
from ottla.errors import OttlaError, RebootstrapRequired, UnknownServerError, broker_error
from ottla.net.retries import Backoff
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.values import Address, Node, TopicPartition

__all__ = ["Metadata", "PartitionInfo", "bootstrap_nodes"]


def bootstrap_nodes(addresses: Iterable[Address]) -> tuple[Node, ...]:
    """Addresses as nodes whose real ids are not known yet."""
    return tuple(Node(-1 - index, address.host, address.port) for index, address in enumerate(addresses))


class Metadata:
    """The cluster as one client knows it."""

    def __init__(
        self,
        bootstrap: Sequence[Node],
        *,
        backoff: Backoff,
        max_age_ms: float = 300_000,
        max_idle_ms: float | None = None,
        rebootstrap_trigger_ms: float = 300_000,
        rebootstrap_allowed: bool = True,
        auto_create: bool = True,
    ) -> None:
        self._bootstrap = tuple(bootstrap)
        self._backoff = backoff
        self._max_age_ms = max_age_ms
        self._max_idle_ms = math.inf if max_idle_ms is None else max_idle_ms
        self._rebootstrap_trigger_ms = rebootstrap_trigger_ms
        self._rebootstrap_allowed = rebootstrap_allowed
        self._auto_create = auto_create
        self._view = ClusterView()
        self._wanted: dict[str, float] = {}  # topic, and until when if it is not used again
        self._wants_all = False
        self._new: set[str] = set()  # wanted topics that no request has named yet
        self._update_requested = True
        self._asked: frozenset[str] | None = None  # what the request under way names, if it names only new topics
        self._bootstrapping = True
        self._refreshed_ms = -math.inf  # the last end of a request, good or bad
        self._succeeded_ms = -math.inf
        self._trying_since_ms: float | None = None
        self._failures = 0
        self._same_answers = 0
        self._wait_ms = 0.0
        self.version = 0
        self.failure: OttlaError | None = None
        self.on_request: Callable[[], None] | None = None
        """Whoever sends the questions is told here that one may be due sooner than `due_ms` said last."""

    # --- looking: any thread ---

    @property
    def cluster_id(self) -> str | None:
        return self._view.cluster_id

    @property
    def controller(self) -> Node | None:
        return self._view.nodes.get(self._view.controller_id)

    @property
    def is_bootstrapping(self) -> bool:
        """No answer came since the start, or since `rebootstrap`."""
        return self._bootstrapping

    def nodes(self) -> tuple[Node, ...]:
        """The brokers; the bootstrap addresses before the first answer."""
        return tuple(self._view.nodes.values()) or self._bootstrap

    def nodes_to_ask(self) -> tuple[Node, ...]:
        """Whom to ask about the cluster."""
        return self._bootstrap if self._bootstrapping else self.nodes()

    def node(self, node_id: int) -> Node | None:
        found = self._view.nodes.get(node_id)
        return found or next((node for node in self._bootstrap if node.id == node_id), None)

    def partitions_of(self, topic: str) -> tuple[PartitionInfo, ...] | None:
        """The partitions, each at its index; None when the topic is not known."""
        found = self._view.topics.get(topic)
        return None if found is None or not found.partitions else found.partitions

    def partition(self, partition: TopicPartition) -> PartitionInfo | None:
        return self._view.partition(partition)

    def leader_of(self, partition: TopicPartition) -> Node | None:
        found = self._view.partition(partition)
        return None if found is None else found.leader

    def topic_id(self, topic: str) -> bytes | None:
        found = self._view.topics.get(topic)
        return None if found is None else found.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._view.names.get(topic_id)

    def topics(self) -> frozenset[str]:
        """The topics that exist, of those this client asked for."""
        return frozenset(name for name, topic in self._view.topics.items() if topic.error is None)

    def error_of(self, topic: str) -> OttlaError | None:
        """Why nothing is known of a topic: InvalidTopicException, TopicAuthorizationFailed, ..."""
        found = self._view.topics.get(topic)
        return None if found is None else found.error

    def topic_errors(self) -> dict[str, OttlaError]:
        return {name: topic.error for name, topic in self._view.topics.items() if topic.error is not None}

    def is_internal(self, topic: str) -> bool:
        found = self._view.topics.get(topic)
        return found is not None and found.is_internal

    def age_ms(self, now_ms: float) -> float:
        """How old the last answer is; NaN when there was none."""
        return now_ms - self._succeeded_ms if self._succeeded_ms > -math.inf else math.nan

    # --- wanting ---

    def want(self, *topics: str, now_ms: float) -> bool:
        """Keep these topics fresh; True when one of them is new and a question is due. May be called by any thread, so
        it tells nobody: then call `NetworkClient.wake` on the loop."""
        is_new = False
        for topic in topics:
            if topic not in self._wanted:
                is_new = True
                self._new.add(topic)
            self._wanted[topic] = now_ms + self._max_idle_ms
        return is_new and not self._wants_all

    def want_only(self, topics: Collection[str] | None) -> None:
        """Keep exactly these topics fresh; None is all there are."""
        if topics is None:
            self._update_requested = self._update_requested or not self._wants_all
            self._wants_all = True
        else:
            self._wants_all = False
            self._new.update(set(topics).difference(self._wanted))
            self._new.intersection_update(topics)
            self._wanted = dict.fromkeys(topics, math.inf)
        self._notify_request()

    def request_update(self) -> None:
        """Something was stale: ask again soon."""
        self._update_requested = True
        self._notify_request()

    def due_ms(self, now_ms: float) -> float:
        """When the next question should be sent; a time that has passed means now."""
        if self._new and self._failures == 0 and not self._wants_all:
            return now_ms  # it names new topics only, so it repeats nothing
        expires_ms = self._succeeded_ms + self._max_age_ms
        wanted_ms = now_ms if self._update_requested or self._new else expires_ms
        same_answers = 0 if expires_ms <= now_ms else self._same_answers
        tries = max(self._failures, same_answers)
        # The wait is drawn once per answer, not at every look: see _draw_wait.
        return max(wanted_ms, self._refreshed_ms + (self._wait_ms if tries else 0))

    def needs_rebootstrap(self, now_ms: float) -> bool:
        """Nobody told us about the cluster for `rebootstrap_trigger_ms`, though we asked (KIP-1102)."""
        since_ms = self._trying_since_ms
        waited_long = since_ms is not None and now_ms - since_ms >= self._rebootstrap_trigger_ms
        return waited_long and self._rebootstrap_allowed and not self._bootstrapping

    def rebootstrap(self, now_ms: float) -> bool:
        """Begin again with the bootstrap addresses; False when metadata.recovery.strategy forbids it."""
        if not self._rebootstrap_allowed or self._bootstrapping:
            return False
        self._bootstrapping = True
        self._update_requested = True
        self._trying_since_ms = now_ms
        return True

    def begin_with(self, nodes: Sequence[Node]) -> None:
        """Other bootstrap nodes than before: their names were resolved."""
        self._bootstrap = tuple(nodes)

    # --- asking ---

    def request(self, now_ms: float) -> MetadataRequest:
        """The next question. One at a time: `update` or `update_failed` must follow before the next."""
        self._drop_idle(now_ms)
        full = self._update_requested or self._wants_all or self._bootstrapping or self._is_old(now_ms)
        names = frozenset(self._new) if self._new and not full else frozenset(self._wanted)
        self._asked = None if full else names
        self._new.difference_update(names)  # in place, because another thread may be adding
        if self._trying_since_ms is None:
            self._trying_since_ms = now_ms
        if self._is_old(now_ms):
            self._same_answers = 0  # asked because of its age: that nothing changed is good news
        self._update_requested = False
        topics = None if self._wants_all else [MetadataRequestTopic(name=name) for name in sorted(names)]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=self._auto_create)

    def update(self, response: MetadataResponse, now_ms: float, *, reliable_epochs: bool = True) -> None:
        """An answer came."""
        if response.error_code == RebootstrapRequired.code:
            self.update_failed(RebootstrapRequired(), now_ms)
            self.rebootstrap(now_ms)
            return
        if response.error_code or not response.brokers:
            why = broker_error(response.error_code) if response.error_code else UnknownServerError(_EMPTY)
            self.update_failed(why, now_ms)
            return
        keep = self._view.topics if self._asked is not None else ()
        retained = keep if self._wants_all else [name for name in keep if name in self._wanted]
        view = self._view.updated(response, keep=retained, reliable_epochs=reliable_epochs, forget=self._bootstrapping)
        self._succeed(view, now_ms)

    def _succeed(self, view: ClusterView, now_ms: float) -> None:
        self._same_answers = self._same_answers + 1 if view == self._view else 0
        self._view = view
        self._bootstrapping = False
        self._failures = 0
        self._succeeded_ms = now_ms
        self._trying_since_ms = None
        self.failure = None
        self.version += 1
        self._end_request(now_ms)
        if any(topic.may_get_better for topic in view.topics.values()):
            self._update_requested = True
            self._same_answers = max(1, self._same_answers)
            self._draw_wait()

    def update_failed(self, error: OttlaError, now_ms: float) -> None:
        """No answer came, or none that can be used."""
        self._failures += 1
        self._update_requested = True
        self._new.update(self._asked or ())
        self.failure = error
        self._end_request(now_ms)

    def leader_changed(
        self, partition: TopicPartition, leader_id: int, leader_epoch: int, nodes: Iterable[Node] = ()
    ) -> bool:
        """A broker said in its answer to Produce or Fetch who leads now; False when that is no news."""
        view = self._view.with_leader(partition, leader_id, leader_epoch, nodes)
        if view is None:
            return False
        self._view = view
        self.version += 1
        return True

    def _notify_request(self) -> None:
        if self.on_request is not None:
            self.on_request()

    def _end_request(self, now_ms: float) -> None:
        self._asked = None
        self._refreshed_ms = now_ms
        self._draw_wait()

    def _draw_wait(self) -> None:
        self._wait_ms = self._backoff.delay_ms(max(self._failures, self._same_answers, 1) - 1)

    def _is_old(self, now_ms: float) -> bool:
        return self._succeeded_ms + self._max_age_ms <= now_ms

    def _drop_idle(self, now_ms: float) -> None:
        if self._max_idle_ms == math.inf:
            return
        for topic in [name for name, until_ms in list(self._wanted.items()) if until_ms <= now_ms]:
            if topic not in self._new:
                self._wanted.pop(topic, None)


_EMPTY: Final = "the answer about the cluster names no broker"
