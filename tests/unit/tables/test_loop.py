"""The loop of a table at a broker: rows, bad records, new columns, restarts, and what halts it."""

import shutil

import pytest
from tests.unit.tables.test_decoding import USER, Registry, avro, written
from tests.unit.tables.topics import Lake, check, run, write

from ottla import Consumer, Producer
from ottla.testing.broker import KafkaBroker
from ottla.values import TopicPartition


@pytest.fixture(scope="module")
def servers():
    with KafkaBroker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture(params=["delta", "iceberg"])
def lake(request, servers, tmp_path):
    made = Lake(servers, tmp_path, request.param)
    yield made
    made.cluster.close()


@pytest.fixture
def topic(lake, request):
    name = request.node.name.replace("[", "-").replace("]", "")[:100]
    lake.cluster.admin().create_topics([name])
    return name


def grow(lake, topic, partitions):
    lake.cluster.admin().create_partitions({topic: partitions})


def read(servers, topic):
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        end = consumer.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
        found = []
        while len(found) < end:
            found += consumer.poll(timeout=1.0)
    return found


def test_a_topic_becomes_a_table_and_the_table_follows(lake, topic):
    grow(lake, topic, 3)
    write(lake.servers, topic, [b"%d" % number for number in range(300)])
    loop = lake.loop(topic, lake.settings())
    run(lake, loop)
    assert sum(check(lake, topic).next_offsets.values()) == 300
    write(lake.servers, topic, [b"more", None], partition=1)
    run(lake, loop)
    assert sum(check(lake, topic).next_offsets.values()) == 302
    row = lake.rows(topic)[-1]
    assert (row["key"], row["headers"]) == (b"k", [])
    assert row["timestamp"].tzinfo is not None
    assert {b"more", None} <= {row["value"] for row in lake.rows(topic)}


def test_json_becomes_columns_and_new_fields_new_columns(lake, topic):
    write(lake.servers, topic, [{"id": 1}, {"id": 2, "at": "now"}])
    loop = lake.loop(topic, lake.settings("json"))
    run(lake, loop)
    write(lake.servers, topic, [{"id": 3, "place": {"x": 1.5}}, {"id": 4}])
    run(lake, loop)
    assert check(lake, topic).next_offsets == {0: 4}
    names = ["partition", "offset", "timestamp", "headers", "key", "id", "at", "place"]
    assert lake.snapshot(topic).schema.names == names
    again = lake.loop(topic, lake.settings("json"))
    write(lake.servers, topic, [{"place": {"x": 2, "y": "new"}, "key": "mine"}])
    run(lake, again)
    assert check(lake, topic).epoch == 2
    assert lake.values(topic)[-1] == {"id": None, "at": None, "place": {"x": 2.0, "y": "new"}, "value_key": "mine"}


def test_bad_records_are_dead_letters_with_their_reason(lake, topic):
    write(lake.servers, topic, [{"id": 1}, b"{", {"id": "x"}, {"id": 2}])
    loop = lake.loop(topic, lake.settings("json"))
    run(lake, loop)
    write(lake.servers, topic, [{"id": True}, {"id": 3}])
    run(lake, loop)
    letters = read(lake.servers, f"{topic}-dead-letters")
    offsets = [int(dict(letter.headers)["ottla.dead.offset"]) for letter in letters]
    check(lake, topic, without={(0, offset) for offset in offsets})
    assert [row["id"] for row in lake.values(topic)] == [1, 2, 3]
    assert (letters[0].key, letters[0].value) == (b"k", b"{")
    assert "it is no JSON" in dict(letters[0].headers)["ottla.dead.reason"].decode()
    assert loop.status.bad_records == 3


def test_bad_records_are_skipped_or_stop_the_table_as_its_topic_says(lake, topic):
    write(lake.servers, topic, [{"id": 1}, b"{", {"id": 2}])
    stopping = lake.loop(topic, lake.settings("json", **{"ottla.table.invalid": "stop"}))
    run(lake, stopping, "halted")
    assert "partition 0 offset 1 is no row of the table: it is no JSON" in stopping.status.reason
    assert lake.rows(topic) == []
    run(lake, lake.loop(topic, lake.settings("json", **{"ottla.table.invalid": "skip"})))
    check(lake, topic, without={(0, 1)})


def test_a_column_that_a_table_cannot_change_costs_the_records_that_need_it(lake, topic):
    """An int that comes to be a long: Iceberg has it wider, Delta keeps what fits."""
    schemas = [USER | {"fields": [{"name": "id", "type": kind}]} for kind in ("int", "long")]
    registry = Registry(*map(avro, schemas))
    loop = lake.loop(topic, lake.settings("schema_id"), registry)
    write(lake.servers, topic, [written(1, schemas[0], {"id": 1})])
    run(lake, loop)
    write(lake.servers, topic, [written(2, schemas[1], {"id": number}) for number in (2, 2**40, 3)])
    run(lake, loop)
    if lake.form == "iceberg":
        check(lake, topic)
        assert [row["id"] for row in lake.values(topic)] == [1, 2, 2**40, 3]
    else:
        check(lake, topic, without={(0, 2)})
        assert f"column id is int32 in the table, which cannot be changed, and has {2**40}" in loop.status.last_bad
        assert [row["id"] for row in lake.values(topic)] == [1, 2, 3]


def test_aborted_transactions_are_no_rows_and_open_ones_wait(lake, topic):
    with Producer(bootstrap_servers=lake.servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"aborted")
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"kept")
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(topic, b"open")
        producer.flush()
        loop = lake.loop(topic, lake.settings())
        run(lake, loop)
        assert [row["value"] for row in lake.rows(topic)] == [b"kept"]
        producer.commit_transaction()
    run(lake, loop)
    check(lake, topic)
    assert [row["value"] for row in lake.rows(topic)] == [b"kept", b"open"]


def test_records_deleted_before_they_were_read_are_told(lake, topic, caplog):
    write(lake.servers, topic, [b"a", b"b"])
    loop = lake.loop(topic, lake.settings())
    run(lake, loop)
    write(lake.servers, topic, [b"c", b"d", b"e"])
    lake.cluster.admin().delete_records({TopicPartition(topic, 0): 4})
    run(lake, loop)
    assert [row["offset"] for row in lake.rows(topic)] == [0, 1, 4]
    assert "records were deleted before the table had them: partition 0 offsets 2 to 3" in caplog.text


def test_records_deleted_while_they_are_read_are_told_too(lake, topic, monkeypatch):
    """The range that was asked for is not there any more: the topic is described again."""
    write(lake.servers, topic, [b"a", b"b", b"c"])
    loop = lake.loop(topic, lake.settings())
    read = lake.cluster.read

    def deleted_before(*arguments):
        lake.cluster.admin().delete_records({TopicPartition(topic, 0): 2})
        monkeypatch.setattr(lake.cluster, "read", read)
        return read(*arguments)

    monkeypatch.setattr(lake.cluster, "read", deleted_before)
    run(lake, loop)
    assert [row["offset"] for row in lake.rows(topic)] == [2]
    assert lake.snapshot(topic).marker.next_offsets == {0: 3}


def test_a_topic_made_anew_halts_its_table(lake, topic):
    write(lake.servers, topic, [b"a"])
    run(lake, lake.loop(topic, lake.settings()))
    lake.cluster.admin().delete_topics([topic])
    lake.cluster.admin().create_topics([topic])
    loop = lake.loop(topic, lake.settings())
    run(lake, loop, "halted")
    assert "it was made anew" in loop.status.reason


def test_a_twin_halts_the_first_and_no_row_is_doubled(lake, topic):
    write(lake.servers, topic, [b"a"] * 10)
    first, second = (lake.loop(topic, lake.settings()) for _ in range(2))
    run(lake, first)
    write(lake.servers, topic, [b"b"] * 10)
    run(lake, second)
    write(lake.servers, topic, [b"c"] * 10)
    run(lake, first, "halted")
    assert "another writer has the table" in first.status.reason
    run(lake, second)
    assert check(lake, topic).next_offsets == {0: 30}
    first.close()


def test_a_partitioned_table_begins_with_the_columns_of_its_records(lake, topic):
    settings = lake.settings("json", **{"ottla.table.partition.by": "country,day(timestamp)"})
    loop = lake.loop(topic, settings)
    run(lake, loop, "failing")
    assert "no record has said yet what that is" in loop.status.reason
    write(lake.servers, topic, [{"country": name, "id": 1} for name in ("de", "at", "ch", "de")])
    run(lake, loop)
    assert len(lake.snapshot(topic).files) == 3
    other = lake.loop(topic, lake.settings("json"))
    run(lake, other, "halted")
    assert "the table is partitioned by country" in other.status.reason


def test_a_place_without_rights_is_a_sentence_and_passes(lake, topic, tmp_path):
    write(lake.servers, topic, [b"a"])
    loop = lake.loop(topic, lake.settings())
    run(lake, loop)
    (tmp_path / topic).rename(tmp_path / "away")
    (tmp_path / topic).write_text("in the way")
    write(lake.servers, topic, [b"b"])
    run(lake, loop, "failing")
    assert topic in loop.status.reason or "ot a directory" in loop.status.reason
    (tmp_path / topic).unlink()
    shutil.move(tmp_path / "away", tmp_path / topic)
    run(lake, loop)
    check(lake, topic)


def test_upkeep_keeps_what_a_loop_has_written(lake, topic):
    loop = lake.loop(topic, lake.settings(**{"ottla.table.retention.ms": "1"}))
    for _ in range(4):
        write(lake.servers, topic, [b"x"] * 5)
        run(lake, loop)
    assert loop.upkeep().compacted_files == 4
    write(lake.servers, topic, [b"y"])
    run(lake, loop)
    assert check(lake, topic).next_offsets == {0: 21}
