"""The partitions of a fetch answer come in the order of the request, as in Kafka; so a topic may come twice."""

import pytest

from ottla.broker.handlers.records import fetch as handler
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

ASKED = [("orders", 2), ("clicks", 1), ("orders", 0), ("clicks", 0), ("clicks", 2), ("orders", 1)]


def fetch_in_order(asked, ids, session=(0, -1)):
    def topic(name, index):
        partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        return FetchTopic(topic=name, topic_id=ids[name], partitions=[partition])

    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=[topic(name, index) for name, index in asked],
        forgotten_topics_data=[],
    )


@pytest.mark.parametrize("is_wide", [False, True], ids=["few", "many"])
@pytest.mark.parametrize("session", [(0, -1), (0, 0)], ids=["no session", "new session"])
@pytest.mark.parametrize("version", [12, 17], ids=["by name", "by id"])
def test_partitions_come_in_the_order_of_the_request(broker, batch, values_of, monkeypatch, is_wide, session, version):
    if is_wide:
        monkeypatch.setattr(handler, "WIDE_PARTITIONS", 0)
    ids = {name: broker.create_topic(name, 3) for name in ("orders", "clicks")}
    for name, index in ASKED:
        broker.produce(name, batch(f"{name}-{index}"), index)
    answer = broker.ask(fetch_in_order(ASKED, ids, session), version)
    names = {topic_id: name for name, topic_id in ids.items()}
    found = [
        (topic.topic or names[topic.topic_id], each.partition_index)
        for topic in answer.responses
        for each in topic.partitions
    ]
    assert found == ASKED
    assert [len(topic.partitions) for topic in answer.responses] == [1, 1, 1, 2, 1]
    values = [values_of(each) for topic in answer.responses for each in topic.partitions]
    assert values == [[f"{name}-{index}"] for name, index in ASKED]
