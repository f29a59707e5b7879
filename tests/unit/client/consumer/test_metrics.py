"""The numbers of a consumer have Java's names and are worked out from the positions."""

from ottla.client.consumer.metrics import ConsumerMetrics, lag_of
from ottla.client.consumer.offset_reset import LATEST
from ottla.client.consumer.subscription import Subscription
from ottla.metrics import MetricKey
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.values import TopicPartition

A = TopicPartition("a", 0)
TAGS = (("client-id", "c"),)


def test_fetches_polls_and_distances_have_javas_names():
    metrics = ConsumerMetrics("c")
    subscription = Subscription(LATEST)
    subscription.assign([A])
    subscription.seek(A, 10)
    state = subscription.state(A)
    state.high_watermark, state.last_stable_offset, state.log_start_offset = 25, 20, 4
    data = PartitionData(
        partition_index=0, error_code=0, high_watermark=25, aborted_transactions=None, records=b"x" * 1000
    )
    metrics.fetched(FetchResponse(responses=[FetchableTopicResponse(topic="a", partitions=[data])]), 7, 1_000)
    metrics.records_returned(50, 1_000)
    metrics.polled(1_000)
    metrics.polled(1_500)
    metrics.committed(3, 1_500)
    metrics.heartbeat(2, 1_500)
    found = metrics.snapshot(subscription, False, 3_500)

    def value(group, name, *more):
        return found[MetricKey(f"consumer-{group}", name, (*TAGS, *more))]

    assert value("fetch-manager-metrics", "fetch-size-avg") == 1000
    assert value("fetch-manager-metrics", "bytes-consumed-total") == 1000
    assert value("fetch-manager-metrics", "records-consumed-total") == 50
    assert value("fetch-manager-metrics", "records-per-request-avg") == 50
    assert value("fetch-manager-metrics", "fetch-latency-max") == 7
    assert value("fetch-manager-metrics", "fetch-total") == 1
    assert value("fetch-manager-metrics", "records-lag-max") == 15
    assert value("fetch-manager-metrics", "records-lag", ("topic", "a"), ("partition", "0")) == 15
    assert value("fetch-manager-metrics", "records-lead-min") == 6
    assert value("coordinator-metrics", "commit-total") == 1
    assert value("coordinator-metrics", "heartbeat-total") == 1
    assert value("coordinator-metrics", "last-heartbeat-seconds-ago") == 2
    assert value("coordinator-metrics", "assigned-partitions") == 1
    assert value("coordinator-metrics", "last-rebalance-seconds-ago") == -1
    assert value("metrics", "time-between-poll-max") == 500


def test_the_lag_of_a_reader_of_committed_records_ends_at_the_last_stable_offset():
    subscription = Subscription(LATEST)
    subscription.assign([A])
    state = subscription.state(A)
    assert lag_of(state, True) is None
    subscription.seek(A, 10)
    state.high_watermark, state.last_stable_offset = 25, 20
    assert (lag_of(state, True), lag_of(state, False)) == (10, 15)
