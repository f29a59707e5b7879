"""reassign, elect and verify on a cluster of three brokers."""

import io
import json
import re
import subprocess
import sys

import pytest
from tests.patience import wait_until

from ottla import Admin, NewTopic
from ottla.cli.main import main
from ottla.cli.output import FAILED, OK
from ottla.testing.cluster import KafkaCluster
from ottla.values import TopicPartition


@pytest.fixture(scope="module")
def cluster():
    with KafkaCluster(brokers=3) as running:
        yield running


@pytest.fixture
def ottla(cluster, capfd, monkeypatch):
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)

    def run(text):
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        code = main(text.split())
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture
def admin(cluster):
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        yield admin


def replicas(admin, topic):
    return [list(each.replicas) for each in admin.describe_topics([topic])[topic].partitions]


def test_more_replicas_are_made_and_are_the_same(ottla, admin, tmp_path):
    admin.create_topics([NewTopic("grown", replica_assignments={0: [0], 1: [1]})])
    assert ottla("verify records grown -n 300")[0] == OK
    planned = json.loads(ottla("reassign start grown --replication 3 --json")[1])
    assert [len(each["replicas"]) for each in planned["partitions"]] == [3, 3]
    assert ottla("reassign start grown --replication 3")[0] == FAILED, "nobody can be asked here"
    code, out, err = ottla("reassign start grown --replication 3 --throttle 50MB --yes")
    assert (code, err) == (OK, "")
    assert "2 partitions are moving" in out
    wait_until(lambda: ottla("reassign status")[1] == "nothing is moving\n")
    assert sorted(map(sorted, replicas(admin, "grown"))) == [[0, 1, 2]] * 2
    assert "unthrottled" in ottla("reassign unthrottle")[1]
    wait_until(lambda: all(len(each.in_sync) == 3 for each in admin.describe_topics(["grown"])["grown"].partitions))
    found = json.loads(ottla("verify replicas grown --json")[1])
    assert {each["differences"] for each in found} == {"none"}
    moves = tmp_path / "moves.json"
    moves.write_text(json.dumps({"partitions": [{"topic": "grown", "partition": 0, "replicas": [2, 1]}]}))
    assert ottla(f"reassign start --file {moves} --yes")[0] == OK
    wait_until(lambda: replicas(admin, "grown")[0] == [2, 1])


def test_leadership_goes_back_to_the_preferred_leader(ottla, admin):
    admin.create_topics([NewTopic("led", replica_assignments={0: [0, 1, 2]})])
    partition = TopicPartition("led", 0)
    admin.alter_partition_reassignments({partition: [1, 0, 2]})  # the leader stays, and is not the first any more
    wait_until(lambda: not admin.list_partition_reassignments())
    wait_until(lambda: replicas(admin, "led") == [[1, 0, 2]])
    code, out, _ = ottla("elect preferred led --json")
    assert (code, json.loads(out)[0]["result"]) in ((OK, "elected"), (OK, "had it already"))
    wait_until(lambda: admin.describe_topics(["led"])["led"].partitions[0].leader == 1)


def test_kafka_replica_verification_catches_up_with_every_replica(ottla, admin, cluster):
    """It goes on for ever: it is ended when it has said that nothing is left to verify."""
    admin.create_topics([NewTopic("verified", 2, 3)])
    assert ottla("verify records verified -n 50")[0] == OK
    program = (
        "import sys; from ottla.cli.kafka.tools import main; sys.exit(main('kafka-replica-verification', sys.argv[1:]))"
    )
    words = ["--topics-include", "verified", "--time", "-2", "--report-interval-ms", "1", "--max-wait-ms", "10"]
    command = [sys.executable, "-c", program, "--broker-list", cluster.bootstrap_servers, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert first.endswith(": verification process is started\n"), first
            lines = iter(process.stdout.readline, "")
            last = next(line for line in lines if ": max lag is 0 for partition verified-" in line)
        finally:
            process.kill()
    assert re.search(r"at offset [1-9]\d* among 2 partitions\n$", last), last
