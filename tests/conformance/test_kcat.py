"""kcat, the command-line client that many people reach for first, unchanged, against our broker.

Skipped where it is not installed (`apt install kcat`, `brew install kcat`).
"""

import json
import shutil
import subprocess

import pytest
from tests.patience import HANG_S

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
LINES = [f"line {number}" for number in range(100)]

pytestmark = pytest.mark.skipif(KCAT is None, reason="needs kcat, and it is not installed")


@pytest.fixture
def kcat(kafka_bootstrap):
    """Runs kcat with some arguments and what it shall read, gives what it printed."""

    def run(*arguments: str, said: str = "") -> str:
        command = [str(KCAT), "-b", kafka_bootstrap, *arguments]
        done = subprocess.run(command, input=said, capture_output=True, text=True, timeout=HANG_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_lines_go_in_and_come_out(kcat, unique_topic):
    kcat("-P", "-t", unique_topic, said="\n".join(LINES))
    assert kcat("-C", "-t", unique_topic, "-e", "-q").splitlines() == LINES


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_goes_through(kcat, codec, unique_topic):
    kcat("-P", "-t", unique_topic, "-z", codec, said="\n".join(LINES))
    assert kcat("-C", "-t", unique_topic, "-e", "-q").splitlines() == LINES


@pytest.mark.parametrize("setting", ["enable.idempotence=true", "acks=0", "acks=1", "transactional.id=kcat"])
def test_producers_of_every_kind_are_served(kcat, setting, unique_topic):
    kcat("-P", "-t", unique_topic, "-X", setting, said="\n".join(LINES))
    read = kcat("-C", "-t", unique_topic, "-e", "-q", "-X", "isolation.level=read_committed")
    assert read.splitlines() == LINES


def test_keys_headers_offsets_and_times_are_told(kcat, unique_topic):
    kcat("-P", "-t", unique_topic, "-K", ":", "-H", "from=kcat", said="k1:v1\nk2:v2")
    told = kcat("-C", "-t", unique_topic, "-e", "-q", "-f", "%p %o %k %s %h %T\n").splitlines()
    assert [line.rsplit(" ", 1)[0] for line in told] == ["0 0 k1 v1 from=kcat", "0 1 k2 v2 from=kcat"]
    assert all(int(line.rsplit(" ", 1)[1]) > 1_600_000_000_000 for line in told)


def test_a_reader_begins_where_it_is_told(kcat, unique_topic):
    kcat("-P", "-t", unique_topic, said="\n".join(LINES))
    assert kcat("-C", "-t", unique_topic, "-e", "-q", "-o", "97").splitlines() == LINES[97:]
    assert kcat("-C", "-t", unique_topic, "-e", "-q", "-o", "-5").splitlines() == LINES[95:]
    assert kcat("-C", "-t", unique_topic, "-e", "-q", "-c", "3").splitlines() == LINES[:3]
    assert f"{unique_topic} [0] offset 0" in kcat("-Q", "-t", f"{unique_topic}:0:1")


def test_a_group_is_balanced_and_goes_on_where_it_stopped(kcat, unique_topic, unique_group):
    kcat("-P", "-t", unique_topic, said="\n".join(LINES))
    start = ["-q", "-X", "auto.offset.reset=earliest"]
    first = kcat(*start, "-c", "40", "-G", unique_group, unique_topic).splitlines()
    rest = kcat(*start, "-e", "-G", unique_group, unique_topic).splitlines()
    assert first + rest == LINES


def test_the_cluster_is_listed(kcat, kafka_bootstrap, unique_topic):
    kcat("-P", "-t", unique_topic, said="x")
    listed = json.loads(kcat("-L", "-J"))
    assert [broker["name"] for broker in listed["brokers"]] == [kafka_bootstrap]
    assert unique_topic in [topic["topic"] for topic in listed["topics"]]
