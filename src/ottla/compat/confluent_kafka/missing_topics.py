"""Topics that a consumer subscribed to and that are not there: librdkafka's poll() tells each once, as a message.

Our own consumer waits for such a topic, because it may come, and says so in the log. Programs for confluent-kafka look
for UNKNOWN_TOPIC_OR_PART. A topic that came and went away is told again.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.client.consumer.consumer import Consumer
from ottla.compat.confluent_kafka.errors import KafkaError
from ottla.compat.confluent_kafka.messages import Message
from ottla.errors import UnknownTopicOrPartition


class MissingTopics:
    """What was reported of the topics of one consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._reported: frozenset[str] = frozenset()

    def forget(self) -> None:
        """There is another subscription: what it lacks is told from the beginning."""
        self._reported = frozenset()

    def news(self) -> list[Message]:
        """Those that were not told yet."""
        missing = frozenset(self._missing())
        new, self._reported = missing - self._reported, missing
        return [_message(topic) for topic in sorted(new)]

    def _missing(self) -> Iterator[str]:
        metadata = self._consumer._core.network.metadata
        for topic in self._consumer.subscription():
            if isinstance(metadata.error_of(topic), UnknownTopicOrPartition):
                yield topic


def _message(topic: str) -> Message:
    text = f"Subscribed topic not available: {topic}: Broker: Unknown topic or partition"
    return Message(topic, 0, value=text.encode(), error=KafkaError(UnknownTopicOrPartition.code, text))
