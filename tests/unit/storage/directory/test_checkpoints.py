"""Small files: Kafka's bytes, old or new after a crash, and a clear word when they make no sense."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import KafkaStorageError
from ottla.properties import parse_properties
from ottla.storage.directory import checkpoints
from ottla.storage.directory.checkpoints import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    CleanShutdown,
    ForeignDirectory,
    MalformedCheckpoint,
    MetaProperties,
    lock_directory,
    read_meta_properties,
    read_offsets,
    read_topic_id,
    take_clean_shutdown,
    write_clean_shutdown,
    write_meta_properties,
    write_offsets,
    write_topic_id,
)
from ottla.storage.files import DirectoryInUse
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition, uuid_from_text

ROOT = Path("/data")
PATH = ROOT / RECOVERY_POINTS
TOPIC_ID = "4cL_CL3KR4qnpv6bzKR_Bg"


def made(seed: int = 0) -> MemoryFiles:
    files = MemoryFiles(seed=seed)
    files.make_directory(ROOT)
    files.sync_directory(Path("/"))
    return files


@pytest.fixture
def files():
    return made()


# --- offset checkpoints ----------------------------------------------------------------------------------------------


def test_offsets_are_written_as_kafka_writes_them(files):
    write_offsets(
        files, PATH, {TopicPartition("__transaction_state", 1): 11, TopicPartition("__consumer_offsets", 0): 0}
    )
    assert files.read_bytes(PATH) == b"0\n2\n__consumer_offsets 0 0\n__transaction_state 1 11\n"
    write_offsets(files, PATH, {})
    assert files.read_bytes(PATH) == b"0\n0\n"


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 2**31 - 1)),
        st.integers(-1, 2**63 - 1),
    )
)
def test_offsets_are_read_as_they_were_written(offsets):
    files = made()
    write_offsets(files, PATH, offsets)
    assert read_offsets(files, PATH) == offsets


def test_a_table_that_is_missing_or_empty_has_no_entries(files):
    assert read_offsets(files, PATH) == {}
    files.replace_bytes(PATH, b"")
    assert read_offsets(files, PATH) == {}


def test_a_line_without_its_end_and_wide_spaces_are_read_as_java_reads_them(files):
    files.replace_bytes(PATH, b"0\n1\na  \t0 5")
    assert read_offsets(files, PATH) == {TopicPartition("a", 0): 5}


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("1\n0\n", 1, "version '1' is unknown"),
        ("x\n0\n", 1, "'x' is no whole number"),
        ("\n", 1, "'' is no whole number"),
        ("0\n", 2, "'' is no whole number"),
        ("0\nfew\n", 2, "'few' is no whole number"),
        ("0\n-1\n", 2, "announces -1 entries, but 0 follow"),
        ("0\n2\na 0 1\n", 2, "announces 2 entries, but 1 follow"),
        ("0\n1\na 0 1\nb 0 1\n", 2, "announces 1 entries, but 2 follow"),
        ("0\n2\na 0 1\nb 0\n", 4, "'b 0' is no entry"),
        ("0\n1\na b 0 1\n", 3, "'a b 0 1' is no entry"),
        ("0\n1\na x 1\n", 3, "'x' is no whole number of 32 bits"),
        ("0\n1\na 1_0 1\n", 3, "'1_0' is no whole number"),
        ("0\n1\na 0 99999999999999999999\n", 3, "is no whole number of 64 bits"),
        ("0\n1\n\n", 3, "'' is no entry"),
        ("0\n1\na 0 \0\0\n", 3, "is no entry"),
    ],
)
def test_a_table_that_makes_no_sense_is_named_with_its_line(files, content, line, problem):
    files.replace_bytes(PATH, content.encode())
    with pytest.raises(MalformedCheckpoint) as caught:
        read_offsets(files, PATH)
    assert f"{PATH}, line {line}: " in str(caught.value)
    assert problem in str(caught.value)
    assert isinstance(caught.value, KafkaStorageError)


def test_bytes_that_are_no_text_are_refused(files):
    files.replace_bytes(PATH, b"0\n1\n\xff 0 1\n")
    with pytest.raises(MalformedCheckpoint, match="not a text"):
        read_offsets(files, PATH)


def test_a_table_that_is_too_large_is_not_read(files, monkeypatch):
    monkeypatch.setattr(checkpoints, "TABLE_LIMIT_BYTES", 10)
    files.replace_bytes(PATH, b"0\n1\nabcdefgh 0 1\n")
    with pytest.raises(MalformedCheckpoint, match="more than 10"):
        read_offsets(files, PATH)


@pytest.mark.parametrize("topic", ["", "a b", "a\n", " a", "a\u2028b"])
def test_a_topic_that_would_break_the_table_is_not_written(files, topic):
    with pytest.raises(ValueError, match="no spaces"):
        write_offsets(files, PATH, {TopicPartition(topic, 0): 1})
    assert not files.exists(PATH)


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_while_a_table_is_replaced_leaves_the_old_or_the_new_one(seed):
    old, new = {TopicPartition("a", 0): 1}, {TopicPartition("a", 0): 2, TopicPartition("b", 0): 3}
    for step in range(1, 8):
        files = made(seed)
        write_offsets(files, PATH, old)
        files.fail(step, for_ever=True)
        with pytest.raises(KafkaStorageError):
            write_offsets(files, PATH, new)
        files.crash()
        assert read_offsets(files, PATH) in (old, new)
    write_offsets(files, PATH, new)
    files.crash()
    assert read_offsets(files, PATH) == new


# --- partition.metadata ----------------------------------------------------------------------------------------------


def test_a_topic_id_is_written_as_kafka_writes_it(files):
    assert read_topic_id(files, ROOT) is None
    write_topic_id(files, ROOT, uuid_from_text(TOPIC_ID))
    assert files.read_bytes(ROOT / PARTITION_METADATA) == b"version: 0\ntopic_id: " + TOPIC_ID.encode()
    assert read_topic_id(files, ROOT) == uuid_from_text(TOPIC_ID)


def test_a_topic_id_may_end_with_a_line_feed(files):
    files.replace_bytes(ROOT / PARTITION_METADATA, f"version: 0\ntopic_id: {TOPIC_ID}\n".encode())
    assert read_topic_id(files, ROOT) == uuid_from_text(TOPIC_ID)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "line 1"),
        ("version: 1\ntopic_id: 4cL_CL3KR4qnpv6bzKR_Bg", "line 1: it must be 'version: 0'"),
        ("version: 0", "line 2"),
        ("version: 0\ntopic_id: short", "line 2: it must be 'topic_id: ' and an id"),
        ("version: 0\n4cL_CL3KR4qnpv6bzKR_Bg", "line 2"),
        ("version: 0\ntopic: 4cL_CL3KR4qnpv6bzKR_Bg", "line 2"),
        ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "line 2: the topic id is zero"),
    ],
)
def test_a_topic_id_that_makes_no_sense_is_refused(files, content, problem):
    files.replace_bytes(ROOT / PARTITION_METADATA, content.encode())
    with pytest.raises(MalformedCheckpoint, match=problem):
        read_topic_id(files, ROOT)


# --- the marker of a clean shutdown ----------------------------------------------------------------------------------


def test_the_marker_is_taken_once(files):
    assert take_clean_shutdown(files, ROOT) is None
    write_clean_shutdown(files, ROOT, broker_epoch=11)
    assert files.read_bytes(ROOT / CLEAN_SHUTDOWN) == b'{"version":0,"brokerEpoch":11}'
    assert take_clean_shutdown(files, ROOT) == CleanShutdown(broker_epoch=11)
    assert take_clean_shutdown(files, ROOT) is None


def test_a_marker_that_was_written_survives_and_one_that_was_taken_stays_away(files):
    write_clean_shutdown(files, ROOT)
    files.crash("nothing")
    assert take_clean_shutdown(files, ROOT) == CleanShutdown(broker_epoch=None)
    files.crash("nothing")
    assert take_clean_shutdown(files, ROOT) is None


@pytest.mark.parametrize(
    ("content", "epoch"),
    [
        (b"", None),
        (b'{"version":0,"brokerEpoch":-1}', None),
        (b'{"version": 1, "brokerEpoch": 7, "more": true}', 7),
        (b'{"brokerEpoch": "7"}', None),
        (b'{"brokerEpoch": true}', None),
        (b"[1]", None),
        (b"\xff{", None),
        (b"[" * 100_000, None),
    ],
)
def test_that_the_marker_is_there_is_what_counts(files, content, epoch):
    files.replace_bytes(ROOT / CLEAN_SHUTDOWN, content)
    assert take_clean_shutdown(files, ROOT) == CleanShutdown(epoch)


# --- meta.properties -------------------------------------------------------------------------------------------------

VERSION_1 = b"""#
#Sun Nov 15 05:42:07 UTC 2026
node.id=1
directory.id=haCUxG32_5Ab6eHsrtxfSg
version=1
cluster.id=b3R0bGEtZ29sZGVuLTAwMQ
"""
VERSION_0 = b"#\n#Sun Nov 15 05:53:36 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=AjvIQjreS-qNdO0Z2JOdJA\n"


def read(files, content):
    files.replace_bytes(ROOT / META_PROPERTIES, content)
    return read_meta_properties(files, ROOT)


def test_what_kafka_wrote_is_read(files):
    directory_id = uuid_from_text("haCUxG32_5Ab6eHsrtxfSg")
    assert read(files, VERSION_1) == MetaProperties(1, "b3R0bGEtZ29sZGVuLTAwMQ", 1, directory_id)
    assert read(files, VERSION_0) == MetaProperties(0, "AjvIQjreS-qNdO0Z2JOdJA", 1, None)


def test_a_new_directory_has_no_properties(files):
    assert read_meta_properties(files, ROOT) is None


def test_properties_of_version_0_may_lack_everything(files):
    assert read(files, b"version=0\n") == MetaProperties(0)
    assert read(files, b"broker.id=3\n") == MetaProperties(0, node_id=3)
    assert read(files, b"version=0\nnode.id=3\n") == MetaProperties(0, others={"node.id": "3"})


def test_unknown_keys_are_kept(files):
    found = read(files, VERSION_1 + b"made.by=someone\n")
    write_meta_properties(files, ROOT, found)
    assert files.read_bytes(ROOT / META_PROPERTIES) == (
        b"#\ncluster.id=b3R0bGEtZ29sZGVuLTAwMQ\ndirectory.id=haCUxG32_5Ab6eHsrtxfSg\n"
        b"made.by=someone\nnode.id=1\nversion=1\n"
    )
    assert read_meta_properties(files, ROOT) == found


def test_version_0_is_written_with_its_own_name_of_the_id(files):
    write_meta_properties(files, ROOT, MetaProperties(0, "c", 5))
    assert files.read_bytes(ROOT / META_PROPERTIES) == b"#\nbroker.id=5\ncluster.id=c\nversion=0\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"version=2\n", "version 2 is unknown"),
        (b"version=one\n", "'one' is no whole number"),
        (b"version=1\nnode.id=1\n", "cluster.id is missing"),
        (b"version=1\ncluster.id=c\n", "node.id is missing"),
        (b"version=1\ncluster.id=c\nnode.id=x\n", "'x' is no whole number"),
        (b"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=short\n", "'short' is not a Kafka uuid"),
        (b"version=1\ncluster.id=\\u12\nnode.id=1\n", "hexadecimal"),
    ],
)
def test_properties_that_make_no_sense_are_refused(files, content, problem):
    with pytest.raises(MalformedCheckpoint, match=problem) as caught:
        read(files, content)
    assert str(ROOT / META_PROPERTIES) in str(caught.value)


def test_a_directory_of_another_broker_or_cluster_is_refused_in_words(files):
    found = read(files, VERSION_1)
    found.expect(ROOT, cluster_id="b3R0bGEtZ29sZGVuLTAwMQ", node_id=1)
    found.expect(ROOT)
    with pytest.raises(ForeignDirectory, match=r"/data/meta.properties has node.id=1, but this broker has 2") as caught:
        found.expect(ROOT, cluster_id="b3R0bGEtZ29sZGVuLTAwMQ", node_id=2)
    assert "log.dirs" in str(caught.value)
    with pytest.raises(ForeignDirectory, match=r"has cluster.id=b3R0bGEtZ29sZGVuLTAwMQ, but this broker has other"):
        found.expect(ROOT, cluster_id="other", node_id=1)
    with pytest.raises(ForeignDirectory, match=r"broker.id=1"):
        read(files, VERSION_0).expect(ROOT, node_id=2)
    MetaProperties(0).expect(ROOT, cluster_id="any", node_id=7)


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8)))
def test_any_text_survives_in_properties(others):
    reserved = {"version", "cluster.id", "node.id", "directory.id"}
    others = {key: value for key, value in others.items() if key not in reserved}
    files = made()
    write_meta_properties(files, ROOT, MetaProperties(1, " c=:#!\\ ", 1, others=others))
    content = files.read_bytes(ROOT / META_PROPERTIES)
    assert parse_properties(content.decode("ascii")).items() >= others.items()
    assert read_meta_properties(files, ROOT) == MetaProperties(1, " c=:#!\\ ", 1, others=others)


# --- the lock --------------------------------------------------------------------------------------------------------


def test_a_directory_is_used_by_one_broker(files):
    lock = lock_directory(files, ROOT)
    assert files.exists(ROOT / ".lock")
    with pytest.raises(DirectoryInUse, match="/data"):
        lock_directory(files, ROOT)
    lock.release()
    lock_directory(files, ROOT).release()
