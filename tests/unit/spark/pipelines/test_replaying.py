"""Dead letters go back once, whatever is chosen first and whoever dies."""

import pytest

from ottla import Admin, Consumer, NewTopic, Producer, TopicPartition
from ottla.cli.main import main
from ottla.cli.output import FAILED, OK
from ottla.spark.pipelines.replaying import Choice, Notes, Replay, TooScattered

PIPELINE = """
name: clicks
sources: {clicks: {topic: clicks, format: json, schema: user STRING, expect: {has_user: user IS NOT NULL}}}
steps: {users: {sql: SELECT * FROM clicks, expect: {is_known: user <> 'x'}}}
sinks: {out: {from: users, topic: out}}
dead_letters: dead
"""


def letter(number, *, step="clicks", rule="readable", topic="clicks", pipeline="clicks", value=None):
    headers = [("own", b"h"), ("ottla.dead.pipeline", pipeline.encode()), ("ottla.dead.step", step.encode())]
    headers += [("ottla.dead.rule", rule.encode()), ("ottla.dead.topic", topic.encode())]
    headers += [("ottla.dead.partition", b"1"), ("ottla.dead.offset", str(number).encode())]
    return {"key": b"k", "value": value or f"bad {number}".encode(), "headers": headers, "partition": 0}


@pytest.fixture
def servers(kafka_broker):
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("clicks", 2), NewTopic("dead", 1)])
    return kafka_broker.bootstrap_servers


def write(servers, topic, *records):
    with Producer(bootstrap_servers=servers) as producer:
        for record in records:
            producer.send(topic, **record)


def values(servers, topic="clicks", partition=1):
    place = TopicPartition(topic, partition)
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        consumer.assign([place])
        consumer.seek(place, 0)
        end, found = consumer.end_offsets([place])[place], []
        while consumer.position(place) < end:
            found += consumer.poll(1.0)
    return [record.value for record in found], found


def replayed(servers, choice=Choice(), to=None):  # noqa: B008 - it is frozen
    with Replay({"bootstrap.servers": servers}, "clicks", "dead", steps=["users"]) as replay:
        return replay.send(replay.waiting(choice), to)


def test_a_record_goes_back_as_it_was_and_only_once(servers):
    write(servers, "dead", letter(0), letter(1), letter(2, pipeline="another"))
    assert replayed(servers) == (2, 0)
    found, records = values(servers)
    assert found == [b"bad 0", b"bad 1"]
    assert (records[0].key, [tuple(each) for each in records[0].headers]) == (b"k", [("own", b"h")])
    assert replayed(servers) == (0, 0)
    write(servers, "dead", letter(3))
    assert replayed(servers) == (1, 0)
    assert values(servers)[0] == [b"bad 0", b"bad 1", b"bad 3"]


def test_rules_may_be_chosen_in_any_order(servers):
    rules = ["readable", "has_user"] * 5
    write(servers, "dead", *(letter(number, rule=rule) for number, rule in enumerate(rules)))
    assert replayed(servers, Choice(rule="has_user")) == (5, 0)
    assert replayed(servers, Choice(rule="has_user")) == (0, 0)
    assert replayed(servers) == (5, 0)
    assert sorted(values(servers)[0]) == [f"bad {number}".encode() for number in range(10)]


def test_a_replay_that_dies_in_its_transaction_has_sent_nothing(servers):
    write(servers, "dead", letter(0), letter(1))
    with Replay({"bootstrap.servers": servers}, "clicks", "dead") as replay:
        letters = replay.waiting(Choice())
        replay._producer.begin_transaction()
        replay._send(letters[0], letters[0], None)
        replay._producer.flush()
        assert replayed(servers) == (2, 0), "the second one ends what the first has open"
    assert values(servers)[0] == [b"bad 0", b"bad 1"]


def test_of_a_step_s_letter_the_record_itself_goes_back(servers):
    write(servers, "clicks", {"value": b'{"user": "x"}', "partition": 1})
    row, gone = b'{"user": "x", "_offset": 0}', b"{}"
    write(servers, "dead", letter(0, step="users", value=row), letter(77, step="users", value=gone))
    assert replayed(servers) == (1, 1)
    assert values(servers)[0] == [b'{"user": "x"}', b'{"user": "x"}']
    assert replayed(servers) == (0, 1), "one whose record is gone waits"


def test_they_can_go_into_another_topic(servers):
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("repaired", 1)])
    write(servers, "dead", letter(0))
    assert replayed(servers, to="repaired") == (1, 0)
    assert values(servers, "repaired", 0)[0] == [b"bad 0"]


def test_notes_come_back_as_they_were_written():
    notes = Notes(3)
    notes.add([5, 9, 4000], waiting=[3, 5, 9, 20, 4000], end=5000)
    again = Notes.read(notes.written())
    assert (again.first, again.behind) == (3, {5, 9, 4000})
    again.add([3, 20], waiting=[3, 5, 9, 20, 4000], end=5000)
    assert (again.first, again.behind) == (5000, set())


def test_notes_that_do_not_fit_are_refused():
    import random

    drawn = random.Random(7)
    letters = [offset for offset in range(200_000) if drawn.random() < 0.5]
    notes = Notes(0)
    notes.add(letters, waiting=range(200_000), end=200_000)
    with pytest.raises(TooScattered):
        notes.written()


def test_the_command_shows_first(servers, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    write(servers, "dead", letter(0), letter(1, rule="has_user"))
    command = ["pipeline", "replay", "-b", servers]
    assert main([*command, "--dry-run"]) == OK
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == [["clicks", "readable", "1", "clicks"], ["clicks", "has_user", "1", "clicks"]]
    assert main(command) == FAILED
    assert "add --yes" in capsys.readouterr().err
    assert main([*command, "--rule", "readable", "--yes"]) == OK
    assert "1 dead letters are replayed" in capsys.readouterr().out
    assert values(servers)[0] == [b"bad 0"]


def test_dead_letters_in_files_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipeline.yml").write_text(PIPELINE.replace("dead_letters: dead", "dead_letters: {files: dead}"))
    assert main(["pipeline", "replay"]) == FAILED
    assert "writes dead letters into files" in capsys.readouterr().err
