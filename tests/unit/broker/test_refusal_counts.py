"""What a broker refuses is counted: by topic, and by the error that the client gets."""

from ottla.errors import InvalidTopicException, MessageTooLarge, OffsetOutOfRange, UnknownTopicOrPartition
from ottla.metrics import OTHER


def counts_of(broker, topic):
    counters = broker.broker.topic_metrics.of(topic)
    return counters.failed_produces.value, counters.failed_fetches.value, counters.bytes_rejected.value


def errors_of(broker, request, error):
    line = f'kafka_network_requestmetrics_errors_total{{request="{request}",error="{error.name}"}} '
    found = [each.removeprefix(line) for each in broker.registry.text(0).splitlines() if each.startswith(line)]
    return int(found[0]) if found else 0


def test_records_that_are_too_large_are_counted_with_their_bytes(broker, batch):
    broker.create_topic("orders", max_message_bytes="100")
    records = batch("x" * 500)
    broker.produce("orders", records)
    assert counts_of(broker, "orders") == (1, 0, len(records))
    assert errors_of(broker, "Produce", MessageTooLarge) == 1


def test_names_of_topics_that_do_not_exist_are_counted_together(broker, batch):
    broker.produce("no-such-topic", batch("x"))
    broker.fetch("no-such-topic")
    assert counts_of(broker, OTHER) == (1, 1, 0)
    assert 'topic="no-such-topic"' not in broker.registry.text(0)
    assert errors_of(broker, "Produce", UnknownTopicOrPartition) == 1


def test_internal_topics_are_refused_and_counted(broker, batch):
    broker.produce("__consumer_offsets", batch("x"))
    assert errors_of(broker, "Produce", InvalidTopicException) == 1


def test_offsets_that_are_not_there_are_failed_fetches(broker, batch):
    broker.create_topic("orders")
    broker.produce("orders", batch("x"))
    broker.fetch("orders", offset=50)
    assert counts_of(broker, "orders") == (0, 1, 0)
    assert errors_of(broker, "Fetch", OffsetOutOfRange) == 1


def test_what_succeeds_fails_nowhere(broker, batch):
    broker.create_topic("orders")
    broker.produce("orders", batch("x"))
    broker.fetch("orders")
    assert counts_of(broker, "orders") == (0, 0, 0)
