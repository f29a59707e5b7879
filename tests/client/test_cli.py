"""The command line against a real broker: what people type, what they see, and how it ends."""

import io
import json
import socket
import subprocess
import sys

import pytest
from tests.patience import FAR_MS, bounded, wait_until

from ottla import Consumer, Producer
from ottla.cli import connecting
from ottla.cli.kafka.tools import main as kafka_command
from ottla.cli.main import main
from ottla.cli.output import FAILED, OK
from ottla.testing import FakeBroker


class Stdin(io.TextIOWrapper):
    """What is typed or piped into a command."""

    def __init__(self, content):
        super().__init__(io.BytesIO(content))


@pytest.fixture
def ottla(kafka_broker, capfdbinary, monkeypatch):
    """Runs a command; gives its exit code, stdout and stderr."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", kafka_broker.bootstrap_servers)

    def run(*words, stdin=b""):
        monkeypatch.setattr(sys, "stdin", Stdin(stdin))
        try:
            code = main([str(word) for word in words])
        except SystemExit as ended:
            code = ended.code
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run


@pytest.fixture
def clicks(ottla, unique_topic):
    assert ottla("topic", "create", unique_topic, "-p", 3)[0] == OK
    return unique_topic


def as_json(answer):
    code, out, err = answer
    assert code == OK, err
    return json.loads(out)


def lines(answer):
    code, out, err = answer
    assert code == OK, err
    return out.splitlines()


# --- topics and settings ---------------------------------------------------------------------------------------------


def test_a_topic_is_made_described_changed_and_deleted(ottla, clicks):
    assert clicks in lines(ottla("topic", "list"))
    assert ottla("topic", "alter", clicks, "-c", "retention.ms=5000")[0] == OK
    (described,) = as_json(ottla("topic", "describe", clicks, "--format", "json"))
    assert described["configs"] == {"retention.ms": "5000"}
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2]
    assert ottla("topic", "add-partitions", clicks, "--to", 4)[0] == OK
    entries = as_json(ottla("config", "describe", "topic", clicks, "--format", "json"))
    assert entries == [
        {"name": "min.insync.replicas", "value": "1", "source": "dynamic default broker config"},
        {"name": "retention.ms", "value": "5000", "source": "dynamic topic config"},
    ]
    assert ottla("topic", "delete", clicks, "--yes")[0] == OK
    assert clicks not in lines(ottla("topic", "list"))


def test_failures_of_several_things_name_each(ottla, clicks):
    code, _, err = ottla("topic", "describe", "no-1", clicks, "no-2")
    assert code == FAILED
    assert err.startswith("ottla: 2 of 3 failed: ")
    assert "no-1" in err
    assert "no-2" in err


def test_a_short_timeout_is_for_requests_too(ottla, clicks):
    ottla("produce", clicks, stdin=b"a\n")
    assert lines(ottla("consume", clicks, "-e", "--timeout", 5)) == ["a"]


@pytest.mark.parametrize("verb", [["describe"], ["alter", "--set", "log.cleaner.threads=2"]])
def test_a_broker_is_named_by_its_number(ottla, verb):
    code, _, err = ottla("config", verb[0], "broker", "localhost", *verb[1:])
    assert (code, err) == (FAILED, "ottla: 'localhost' is no broker's id: write a number, or `all` for every broker\n")


@pytest.mark.parametrize("verb", [["describe"], ["alter", "--set", "log.cleaner.threads=2"]])
def test_a_broker_that_is_not_there_is_told_at_once(ottla, verb):
    with bounded():
        code, _, err = ottla("config", verb[0], "broker", 7, *verb[1:], "--timeout", FAR_MS // 1000)
    assert (code, err) == (FAILED, "ottla: there is no broker 7; there is 0\n")


def test_a_partition_that_is_not_there_is_told_at_once(ottla, clicks):
    with bounded():
        code, _, err = ottla("produce", clicks, "-p", 77, "--timeout", FAR_MS // 1000, stdin=b"x\n")
    assert (code, err) == (FAILED, f"ottla: {clicks} has no partition 77: it has 3, 0 to 2\n")


def test_what_fails_for_one_reason_is_said_once(ottla, clicks, unique_group, kafka_broker):
    ottla("produce", clicks, stdin=b"a\nb\nc\n")
    member = Consumer(
        clicks, bootstrap_servers=kafka_broker.bootstrap_servers, group_id=unique_group, auto_offset_reset="earliest"
    )
    with member:
        wait_until(lambda: member.poll(0.1), "records")
        member.commit()
        code, _, err = ottla("group", "reset", unique_group, "--topic", clicks, "--to-earliest", "--execute")
    assert (code, err.count("\n")) == (FAILED, 1)
    first, _, rest = err.partition(". ")
    assert first.removeprefix("ottla: ") not in rest, err


def test_failures_are_one_sentence_and_exit_code_1(ottla, clicks):
    code, _, err = ottla("topic", "create", clicks)
    assert (code, err.count("\n")) == (FAILED, 1)
    assert "already exists" in err
    assert "nobody" in ottla("topic", "delete", clicks)[2].lower()
    assert "write it as NAME=VALUE" in ottla("topic", "alter", clicks, "-c", "oops")[2]
    assert "no such setting" in ottla("topic", "list", "-X", "no.such=1")[2]


def test_a_cluster_that_is_not_there_is_told_in_time(ottla):
    code, _, err = ottla("topic", "list", "-b", "127.0.0.1:1", "--timeout", 1)
    assert code == FAILED
    assert "127.0.0.1:1 refused the connection" in err
    assert "Start a broker with `ottla broker start`, or name another with -b HOST:PORT" in err


def test_where_nothing_listens_it_is_said_at_once(ottla, monkeypatch):
    monkeypatch.setattr(connecting, "REFUSED_PATIENCE_S", 0.25)
    first, last = ottla("topic", "list", "-b", "127.0.0.1:1")[2].splitlines()
    assert first == "ottla: nothing listens at 127.0.0.1:1; trying on for 0.25 s"
    assert "127.0.0.1:1 refused the connection" in last
    given = ottla("topic", "list", "-b", "127.0.0.1:1", "--timeout", 0.5)[2]
    assert "trying on for 0.5 s" in given, "who says how long is patient for so long"
    given = ottla(
        "topic", "list", "-b", "127.0.0.1:1", "-X", "default.api.timeout.ms=750", "-X", "request.timeout.ms=9"
    )[2]
    assert "trying on for 0.75 s" in given


@pytest.mark.parametrize("words", [("consume", "clicks", "-e"), ("produce", "clicks")])
def test_writing_and_reading_say_at_once_that_nothing_listens(ottla, monkeypatch, words):
    monkeypatch.setattr(connecting, "REFUSED_PATIENCE_S", 0.25)
    code, _, err = ottla(*words, "-b", "127.0.0.1:1", stdin=b"a\n")
    first, last = err.splitlines()
    assert code == FAILED
    assert first == "ottla: nothing listens at 127.0.0.1:1; trying on for 0.25 s"
    assert "127.0.0.1:1 refused the connection" in last
    assert "trying on for 0.5 s" in ottla(*words, "-b", "127.0.0.1:1", "--timeout", 0.5, stdin=b"a\n")[2]


def test_options_may_stand_between_the_other_words(ottla, clicks, tmp_path):
    file = tmp_path / "lines"
    file.write_text("tea\n")
    assert ottla("produce", clicks, "-k", "mixed", file)[0] == OK
    assert "mixed tea" in ottla("consume", clicks, "-e", "-f", "%k %s\\n")[1]
    assert ottla("topic", "describe", clicks, "--json", "no-such-topic")[0] == FAILED
    code, _, err = ottla("produce", clicks, "-k", "mixed", file, "one-more")
    assert (code, err.splitlines()[0]) == (2, "ottla produce: unrecognized arguments: one-more")
    assert ottla("topic", "list", "-p", "x")[0] == 2


@pytest.mark.parametrize("words", [("topic", "list"), ("consume", "clicks", "-e"), ("produce", "clicks")])
def test_that_nobody_knows_a_name_is_said_at_once(ottla, monkeypatch, words):
    def nobody_knows(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(connecting, "REFUSED_PATIENCE_S", 0.25)
    monkeypatch.setattr(socket, "getaddrinfo", nobody_knows)
    code, _, err = ottla(*words, "-b", "kafka.invalid:9092", stdin=b"a\n")
    first, last = err.splitlines()
    assert code == FAILED
    assert first == "ottla: nobody knows the name kafka.invalid; trying on for 0.25 s"
    assert "the name kafka.invalid cannot be resolved (Name or service not known)" in last
    given = ottla(*words, "-b", "kafka.invalid:9092", "--timeout", 0.5, stdin=b"a\n")[2]
    assert "trying on for 0.5 s" in given


def test_a_line_for_a_partition_that_is_not_there_is_a_bad_line(ottla, clicks):
    text = b'{"value":"a","partition":1}\n{"value":"b","partition":7}\n{"value":"c"}\n'
    code, _, err = ottla("produce", clicks, "--format", "json", stdin=text)
    assert code == FAILED
    assert f"line 2: {clicks} has no partition 7" in err
    assert ottla("produce", clicks, "--format", "json", "--skip-bad-lines", stdin=text)[0] == OK
    assert sorted(lines(ottla("consume", clicks, "-e"))) == ["a", "a", "c"]


def test_kafkas_commands_say_in_javas_words_that_nothing_listens(capfd, tmp_path):
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=500\nrequest.timeout.ms=500\n")
    words = ["--bootstrap-server", "127.0.0.1:1", "--command-config", str(config), "--list"]
    assert kafka_command("kafka-topics", words) == FAILED
    said = capfd.readouterr().err
    assert "Connection to node -1 (127.0.0.1:1) could not be established. Node may not be available." in said


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_person_hears_that_there_are_no_topics_and_a_program_does_not(capfd, monkeypatch, is_terminal):
    with FakeBroker() as fake:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
        assert main(["topic", "list", "-b", fake.bootstrap_servers]) == OK
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "there are no topics; make one with `ottla topic create NAME`\n" * is_terminal


def test_settings_of_brokers_and_groups(ottla, unique_group):
    assert ottla("config", "alter", "group", unique_group, "--set", "consumer.session.timeout.ms=50000")[0] == OK
    (entry,) = as_json(ottla("config", "describe", "group", unique_group, "--format", "json"))
    assert entry["value"] == "50000"
    everything = as_json(ottla("config", "describe", "broker", 0, "--all", "--format", "json"))
    assert {"num.partitions", "log.dirs"} <= {each["name"] for each in everything}


def test_the_cluster_is_described(ottla, clicks):
    described = as_json(ottla("cluster", "describe", "--format", "json"))
    assert described["brokers"][0]["controller"] is True
    assert described["offline"] == 0


# --- records ---------------------------------------------------------------------------------------------------------


def test_lines_are_produced_and_consumed(ottla, clicks):
    code, _, err = ottla("produce", clicks, "-K", ":", stdin=b"a:1\nb:2\nc:3\n")
    assert (code, err) == (OK, f"3 records written to {clicks}\n")
    assert sorted(lines(ottla("consume", clicks, "-e"))) == ["1", "2", "3"]
    assert sorted(lines(ottla("consume", clicks, "-e", "-f", r"%k=%s\n"))) == ["a=1", "b=2", "c=3"]


def test_what_was_consumed_as_json_can_be_produced_again(ottla, clicks, unique_topic, tmp_path):
    ottla("produce", clicks, "-k", "key", "-H", "trace=7f", stdin=b"\xff\xfe\nplain")
    _, out, _ = ottla("consume", clicks, "-e", "-f", "json")
    copy = tmp_path / "records.jsonl"
    copy.write_text(out)
    other = f"{unique_topic}-copy"
    assert ottla("topic", "create", other, "-p", 3)[0] == OK
    assert ottla("produce", other, copy, "--format", "json")[0] == OK
    _, again, _ = ottla("consume", other, "-e", "-f", "json")
    assert again.replace(other, clicks) == out
    assert json.loads(out.splitlines()[0])["value_base64"] == "//4="


def test_a_bad_line_stops_with_its_number_unless_it_may_be_passed_over(ottla, clicks):
    code, _, err = ottla("produce", clicks, "-K", ":", stdin=b"a:1\nnothing\nb:2\n")
    assert code == FAILED
    assert "line 2" in err
    code, _, err = ottla("produce", clicks, "-K", ":", "--skip-bad-lines", stdin=b"a:1\nnothing\nb:2\n")
    assert (code, "1 lines passed over" in err) == (OK, True)


def test_reading_begins_where_it_is_told(ottla, clicks):
    ottla("produce", clicks, "-p", 0, stdin=b"".join(b"%d\n" % number for number in range(10)))
    assert lines(ottla("consume", clicks, "-p", 0, "-e", "-o", 7)) == ["7", "8", "9"]
    assert lines(ottla("consume", clicks, "-p", 0, "-e", "-o", "-2")) == ["8", "9"]
    assert lines(ottla("consume", clicks, "-p", 0, "-e", "-o", "end")) == []
    assert len(lines(ottla("consume", clicks, "-e", "-o", "@-1h"))) == 10
    assert lines(ottla("consume", clicks, "-n", 3)) == ["0", "1", "2"]
    assert lines(ottla("consume", clicks, "-e", "--until", "2020-01-01")) == []
    assert "there is no topic" in ottla("consume", "nothing", "-e")[2]
    assert "has no partition 9" in ottla("consume", clicks, "-p", 9, "-e")[2]
    assert "write beginning" in ottla("consume", clicks, "-o", "middle")[2]


def test_a_partition_that_ends_before_an_offset_is_not_read_from_its_beginning(ottla, clicks):
    for partition, text in ((0, b"1\n2\n3\n"), (1, b"4\n")):
        ottla("produce", clicks, "-p", partition, stdin=text)
    assert lines(ottla("consume", clicks, "-e", "-o", 2)) == ["3"]
    assert lines(ottla("consume", clicks, "-e", "-o", 99)) == []


def test_headers_keep_their_order_their_doubles_and_their_spaces(ottla, clicks):
    ottla("produce", clicks, "-H", "a=1", "-H", "a=2", "-H", "b= x ", stdin=b"v\n")
    assert ottla("consume", clicks, "-e", "-f", r"[%h]\n")[1] == "[a=1,a=2,b= x ]\n"
    assert "write it as NAME=VALUE" in ottla("produce", clicks, "-H", "nothing", stdin=b"v\n")[2]


def test_a_group_remembers_partitions_of_which_it_read_nothing(ottla, clicks, unique_group):
    quick = ("-X", "group.protocol=consumer")
    assert lines(ottla("consume", clicks, "-g", unique_group, "-o", "end", "-e", *quick)) == []
    ottla("produce", clicks, "-p", 1, stdin=b"later\n")
    assert lines(ottla("consume", clicks, "-g", unique_group, "-o", "end", "-e", *quick)) == ["later"]


def test_a_group_reads_commits_lags_and_is_reset(ottla, clicks, unique_group):
    ottla("produce", clicks, "-p", 1, stdin=b"one\ntwo\nthree\n")
    quick = ("-X", "group.protocol=consumer")
    assert lines(ottla("consume", clicks, "-g", unique_group, "-n", 2, *quick)) == ["one", "two"]
    (group,) = as_json(ottla("group", "describe", unique_group, "--format", "json"))
    assert group["lag"] == 1
    assert group["lag_seconds"] >= 0
    assert unique_group in ottla("group", "list")[1]
    code, out, _ = ottla("group", "reset", unique_group, "--topic", clicks, "--to-earliest")
    assert (code, "nothing was changed" in out) == (OK, True)
    assert ottla("group", "reset", unique_group, "--topic", f"{clicks}:1", "--shift-by", -1, "--execute")[0] == OK
    assert lines(ottla("consume", clicks, "-g", unique_group, "-n", 2, *quick)) == ["two", "three"]
    assert ottla("group", "delete", unique_group, "--yes")[0] == OK
    assert "no group" in ottla("group", "describe", unique_group)[2]


def test_the_oldest_records_are_trimmed(ottla, clicks):
    ottla("produce", clicks, "-p", 0, stdin=b"a\nb\nc\n")
    assert ottla("topic", "trim", clicks, "--before", 2, "--partition", 0, "--yes")[0] == OK
    assert lines(ottla("consume", clicks, "-e")) == ["c"]


def test_partitions_that_are_shorter_are_trimmed_to_their_end(ottla, clicks):
    ottla("produce", clicks, "-p", 0, stdin=b"a\nb\nc\n")
    code, out, err = ottla("topic", "trim", clicks, "--before", 2, "--yes")
    assert (code, err) == (OK, "")
    assert out.splitlines() == [f"{clicks}-0 begins at 2", f"{clicks}-1 begins at 0", f"{clicks}-2 begins at 0"]


# --- speed and transactions ------------------------------------------------------------------------------------------


def test_an_offset_behind_the_end_of_all_partitions_trims_nothing(ottla, clicks):
    ottla("produce", clicks, "-p", 0, stdin=b"a\nb\n")
    code, _, err = ottla("topic", "trim", clicks, "--before", 1000, "--yes")
    assert code == FAILED
    assert "no partition has an offset 1000" in err
    assert "--before end" in err
    assert lines(ottla("consume", clicks, "-e")) == ["a", "b"]


def test_perf_prints_kafkas_lines_and_json(ottla, clicks):
    (line,) = lines(ottla("perf", "produce", clicks, "--num-records", 3000, "--record-size", 100))
    assert line.startswith("3000 records sent, ")
    assert line.endswith(" ms 99.9th.")
    shown = as_json(
        ottla("perf", "consume", clicks, "--num-records", 3000, "--format", "json", "-X", "group.protocol=consumer")
    )
    assert shown["data.consumed.in.nMsg"] == 3000
    latency = as_json(ottla("perf", "latency", clicks, "--num-records", 5, "--format", "json"))
    assert latency["avg_ms"] > 0


def test_only_a_transaction_that_is_open_says_for_how_long(ottla, clicks, kafka_broker, unique_group):
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, transactional_id=unique_group) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(clicks, b"a").result()
        (running,) = as_json(ottla("txn", "describe", unique_group, "--format", "json"))
        producer.commit_transaction()
    assert (running["state"], running["open_for"] is None) == ("Ongoing", False)

    def is_over():
        (found,) = as_json(ottla("txn", "describe", unique_group, "--format", "json"))
        return found["state"] == "CompleteCommit" and found["open_for"] is None

    wait_until(is_over)


def test_transactions_are_listed(ottla):
    assert lines(ottla("txn", "list"))[0].startswith("TRANSACTIONAL ID")


def test_it_starts_quickly():
    """The promise is 150 ms on a quiet machine; here only that nothing heavy is loaded for a look at the help."""
    code = (
        "import sys; from ottla.cli.main import main\ntry: main(['topic', 'list', '--help'])\nexcept SystemExit: pass\n"
    )
    code += "print(*sorted({'asyncio', 'uvloop', 'pyarrow', 'ottla.client', 'ottla.broker'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == ""
