"""What a service tells in its topic, and the replays that it is asked for there."""

import json

import pytest
from tests.patience import wait_until

from ottla import Consumer, Producer, TopicPartition
from ottla.spark.pipelines.drawing import Picture
from ottla.spark.pipelines.serving.children import Child, Served
from ottla.spark.pipelines.serving.publishing import TOPIC, Publisher
from ottla.spark.pipelines.storage import Storage

PICTURE = Picture("clicks", (), ())


@pytest.fixture
def heard(kafka_broker):
    """All that is in the topic by now, the last of each key."""
    found = {}
    with Consumer(bootstrap_servers=kafka_broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])

        def read():
            for record in consumer.poll(0.05):
                found[record.key.decode()] = json.loads(record.value)
            return found

        yield read


@pytest.fixture
def asked():
    return []


@pytest.fixture
def publisher(kafka_broker, tmp_path, asked):
    child = Child(Served("clicks", Storage(str(tmp_path)), []), 0.0, lambda words: None)

    def replay(request):
        asked.append(request)
        return "clicks: 2 dead letters are replayed"

    made = Publisher(child, {"bootstrap.servers": kafka_broker.bootstrap_servers}, PICTURE, replay)
    made.start()
    yield made
    made.stop()


def test_the_state_is_told_and_again_at_the_end(publisher, heard):
    wait_until(lambda: "clicks" in heard())
    value = heard()["clicks"]
    assert (value["phase"], value["trouble"], value["status"]) == ("waiting", "waiting", None)
    assert value["picture"] == {"title": "clicks", "nodes": [], "edges": []}
    publisher._child.supervision.stop()
    publisher._child.turn(0.0)
    publisher.stop()
    wait_until(lambda: heard()["clicks"]["phase"] == "stopped")


def test_a_replay_is_done_once_for_each_request_and_answered(publisher, heard, asked, kafka_broker):
    wait_until(lambda: "clicks" in heard())
    requests = {
        "replay/clicks/1": {"rule": "has_user", "step": None},
        "replay/other/2": {},
        "replay/clicks/3": ["no", "request"],
        "replay/clicks/4": {"rule": ["--yes"]},
        "replay/clicks/5": {},
    }
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers) as producer:
        for key, value in requests.items():
            producer.send(TOPIC, key=key.encode(), value=json.dumps(value).encode(), partition=0)
    wait_until(lambda: isinstance(heard().get("replay/clicks/5"), dict) and heard()["replay/clicks/5"].get("done"))
    assert asked == [{"rule": "has_user", "step": None}, {}]
    assert heard()["replay/clicks/1"] == {"done": True, "message": "clicks: 2 dead letters are replayed"}
    assert heard()["replay/other/2"] == {}
