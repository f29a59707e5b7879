"""elect, logdirs, features, client, verify, reassign and top against a real broker of its own."""

import io
import json
import os
import pty
import select
import subprocess
import sys

import pytest
from tests.patience import HANG_S

from ottla.cli.main import main
from ottla.cli.output import FAILED, OK
from ottla.testing import KafkaBroker


@pytest.fixture(scope="module")
def broker():
    with KafkaBroker() as running:
        yield running


@pytest.fixture
def ottla(broker, capfd, monkeypatch):
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)

    def run(text):
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        try:
            code = main(text.split())
        except SystemExit as ended:
            code = ended.code
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture
def topic(ottla, unique_topic):
    assert ottla(f"topic create {unique_topic} -p 2")[0] == OK
    return unique_topic


def as_json(answer):
    code, out, err = answer
    assert code == OK, err
    return json.loads(out)


def test_a_topic_is_described_without_counting_exactly_what_only_offsets_tell(ottla, topic):
    """Offsets of aborted records and of markers count, too: so it says `about`."""
    ottla(f"verify records {topic} -n 3")
    assert "2 partitions, about 3 records, " in ottla(f"topic describe {topic}")[1]


def test_leaders_that_are_right_need_no_election(ottla, topic):
    assert ottla("elect preferred") == (OK, "every partition has its preferred leader\n", "")
    found = as_json(ottla(f"elect preferred {topic} --json"))
    assert [each["result"] for each in found] == ["had it already"] * 2
    assert "each of these has a leader" in ottla(f"elect unclean {topic}")[2]
    assert "has no partition 7" in ottla(f"elect preferred {topic}:7")[2]


def test_directories_and_their_replicas_are_shown(ottla, topic):
    (directory,) = as_json(ottla("logdirs describe --json"))
    assert (directory["broker"], directory["state"]) == (0, "ok")
    found = as_json(ottla(f"logdirs describe --replicas --topic {topic} --json"))
    assert [(each["topic"], each["partition"]) for each in found] == [(topic, 0), (topic, 1)]
    assert ottla("logdirs describe --broker 7")[0] == FAILED
    code, _, err = ottla(f"logdirs move {topic} --broker 0 --to /no/such/place")
    assert code == FAILED
    assert err.startswith("ottla: ")


def test_features_are_shown_and_a_wrong_one_is_refused(ottla):
    found = as_json(ottla("features describe --json"))
    assert {"feature", "level", "min", "max"} <= set(found[0])
    name, level = found[0]["feature"], found[0]["level"]
    assert ottla(f"features upgrade {name}={level} --dry-run")[0] == OK
    assert "there is no feature nothing" in ottla("features upgrade nothing=1")[2]
    assert "a level is a whole number" in ottla(f"features downgrade {name}=low")[2]


def test_versions_of_apis_are_shown(ottla):
    (found,) = as_json(ottla("client versions --api produce --json"))
    assert (found["api"], found["key"]) == ("Produce", 0)
    assert found["min"] <= found["used"] <= found["max"]
    assert ottla("client versions --api Nothing")[0] == FAILED


def test_subscriptions_to_metrics_of_clients_come_and_go(ottla):
    assert ottla("client subscribe slow --interval-ms 60000 --metric org.apache.kafka.producer.")[0] == OK
    (found,) = as_json(ottla("client subscriptions --json"))
    assert (found["name"], found["interval_ms"], found["metrics"]) == ("slow", "60000", "org.apache.kafka.producer.")
    assert ottla("client unsubscribe slow")[0] == OK
    assert as_json(ottla("client subscriptions --json")) == []
    assert "there is no subscription slow" in ottla("client unsubscribe slow")[2]
    assert "nothing is asked for" in ottla("client subscribe slow")[2]
    assert "illegal client matching pattern" in ottla("client subscribe slow --match client_id=(")[2]


def test_every_record_comes_back_once(ottla, topic):
    found = as_json(ottla(f"verify records {topic} -n 500 --json"))
    assert found == {"sent": 500, "came back": 500, "missing": 0, "twice": 0, "out of order": 0}
    replicas = as_json(ottla(f"verify replicas {topic} --json"))
    assert sum(each["records"] for each in replicas) == 500
    assert {each["differences"] for each in replicas} == {"none (one replica)"}
    last = as_json(ottla(f"verify replicas {topic} --last 10 --json"))
    assert sum(each["records"] for each in last) <= 20


def test_replicas_need_as_many_brokers(ottla, topic):
    code, _, err = ottla(f"reassign start {topic} --replication 3")
    assert (code, err) == (FAILED, "ottla: 3 replicas need as many brokers; there are 1\n")
    assert ottla(f"reassign start {topic}")[1] == "nothing to move: all replicas are where they belong\n"
    assert ottla("reassign status") == (OK, "nothing is moving\n", "")
    assert ottla("reassign unthrottle")[1] == "nothing is throttled\n"
    assert "there is no broker 5" in ottla("reassign start --brokers 0,5")[2]
    assert ottla("reassign cancel --yes")[0] == FAILED


def test_top_shows_one_table_or_json(ottla, topic):
    ottla(f"verify records {topic} -n 10")
    code, out, err = ottla("top --once --interval 0.1 --metrics 127.0.0.1:1")
    assert (code, err) == (OK, "")
    assert out.startswith("cluster ")
    assert topic[:30] in out
    found = as_json(ottla("top --json --interval 0.1 --metrics 127.0.0.1:1"))
    assert found["over_s"] >= 0.1
    assert (found["brokers"][0]["broker"], found["metrics"]) == (0, [])


def test_top_on_a_terminal_paints_a_frame_and_ends_with_q(broker):
    main_end, other_end = pty.openpty()
    command = [sys.executable, "-m", "ottla", "top", "-b", broker.bootstrap_servers, "--interval", "60"]
    with subprocess.Popen(command, stdin=other_end, stdout=other_end, stderr=subprocess.PIPE) as running:
        os.close(other_end)
        seen = b""
        while b"\033[J" not in seen:
            ready, _, _ = select.select([main_end], [], [], HANG_S)
            assert ready, seen
            seen += os.read(main_end, 65_536)
        os.write(main_end, b"q")
        while b"\033[?1049l" not in seen:
            seen += os.read(main_end, 65_536)
        assert running.wait(HANG_S) == OK
        assert running.stderr.read() == b""
    os.close(main_end)
    assert b"cluster " in seen
