"""Moves of replicas as values: files of Kafka's tool, throttles."""

import json

import pytest

from ottla.cli.moves import file_text, moved, parse_moves, read_moves, throttled
from ottla.cli.output import Failure
from ottla.values import TopicPartition

ONE, TWO = TopicPartition("clicks", 0), TopicPartition("clicks", 1)


def test_only_what_changes_is_a_move():
    assert moved({ONE: [1, 2], TWO: [2, 3]}, {ONE: [1, 2], TWO: [3, 2]}) == {TWO: [3, 2]}


def test_a_file_is_written_and_read_again(tmp_path):
    file = tmp_path / "moves.json"
    file.write_text(json.dumps(file_text({ONE: [1, 2], TWO: [2]})))
    assert read_moves(file) == {ONE: [1, 2], TWO: [2]}


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"version": 2, "partitions": []},
        {"partitions": [{}]},
        {"partitions": ["clicks"]},
        {"partitions": [{"topic": "t", "partition": 0, "replicas": []}]},
        {"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]},
        {"partitions": [{"topic": "t", "partition": True, "replicas": [1]}]},
        {"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}] * 2},
    ],
)
def test_what_is_no_file_of_moves_is_refused(value):
    with pytest.raises(ValueError):
        parse_moves(value)


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path):
    with pytest.raises(Failure, match="cannot read"):
        read_moves(tmp_path / "missing")
    (tmp_path / "bad").write_text("{")
    with pytest.raises(Failure, match="bad: "):
        read_moves(tmp_path / "bad")


def test_a_throttle_names_who_has_the_data_and_who_gets_it():
    assert throttled({ONE: ({1, 2}, {3}), TWO: ({2}, {4})}) == {
        "clicks": {
            "leader.replication.throttled.replicas": "0:1,0:2,1:2",
            "follower.replication.throttled.replicas": "0:3,1:4",
        }
    }
