"""`ottla broker start`: where settings come from, what it prints, how it ends. The server is a stub here."""

import argparse
import errno
import gc
import json
import logging
import os
import re
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.broker.http.door import Opened
from ottla.broker.observe.admin_http import AdminListenerFailed
from ottla.cli.commands.broker import explain, read_settings, run_start
from ottla.cli.main import main, make_parser
from ottla.cli.output import FAILED, OK, Failure
from ottla.errors import InvalidConfig, InvalidSetting, UnknownSetting


@dataclass
class Info:
    broker_id: int = 0
    cluster_id: str = "abc"
    bootstrap_servers: str = "127.0.0.1:9092"
    admin_address: tuple[str, int] | None = ("127.0.0.1", 9644)
    http_parts: tuple = ()


@pytest.fixture(autouse=True)
def _keep_logging():
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


def options(*words):
    return make_parser(["broker"]).parse_args(["broker", "start", *words])


def settings_of(*words, environment=None):
    return read_settings(options(*words), environment or {})[0]


@pytest.fixture
def properties(tmp_path):
    def write(text):
        path = tmp_path / "server.properties"
        path.write_text(text)
        return str(path)

    return write


# --- where settings come from --------------------------------------------------------------------------------------


def test_without_anything_the_broker_is_local():
    settings = settings_of()
    assert [str(each) for each in settings.endpoints] == ["PLAINTEXT://127.0.0.1:9092"]


def test_set_wins_over_options_over_the_environment_over_the_file(properties):
    file = properties("num.partitions=1\nlog.dirs=/file\nlisteners=PLAINTEXT://127.0.0.1:1\nbroker.rack=file\n")
    environment = {
        "KAFKA_NUM_PARTITIONS": "2",
        "KAFKA_LOG_DIRS": "/environment",
        "KAFKA_LISTENERS": "PLAINTEXT://[::1]:2",
    }
    settings = settings_of("--config", file, environment=environment)
    assert (settings.num_partitions, settings.data_directories, settings.broker_rack) == (
        2,
        (Path("/environment"),),
        "file",
    )
    settings = settings_of(
        *("--config", file, "--data", "/option", "--listen", "localhost:3", "--set", "num.partitions=3"),
        environment=environment,
    )
    assert (settings.num_partitions, settings.data_directories) == (3, (Path("/option"),))
    assert [each.address for each in settings.endpoints] == ["localhost:3"]
    settings = settings_of("--data", "/option", "--set", "log.dirs=/set", environment=environment)
    assert settings.data_directories == (Path("/set"),)


def test_data_wins_over_the_other_name_of_the_directory():
    assert settings_of("--data", "/d", environment={"KAFKA_LOG_DIR": "/e"}).data_directories == (Path("/d"),)


def test_values_may_hold_equals_signs():
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a";'
    assert settings_of("--set", f"sasl.jaas.config={jaas}").sasl_jaas_config.value == jaas


def test_a_set_without_a_value_says_how_to_write_it():
    with pytest.raises(Failure, match=r"--set num\.partitions: write it as NAME=VALUE"):
        settings_of("--set", "num.partitions")


def test_unknown_names_in_the_file_or_after_set_end_the_start(properties):
    with pytest.raises(UnknownSetting, match=r"did you mean 'num\.partitions'"):
        settings_of("--config", properties("num.partition=3"))
    with pytest.raises(UnknownSetting, match=r"did you mean 'log\.dir'"):
        settings_of("--set", "log.dirz=x")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("# a comment\n\nnum.partition=3", "server.properties, line 3"),
        ("num.partitions=3\nlog.retention.ms=\\\n  soon", "server.properties, line 2"),
        ("broker.id=1\nnum.partitions=3\nnode.id=2", "server.properties, lines 1, 3"),
    ],
)
def test_a_wrong_line_of_the_file_is_named(properties, text, place):
    with pytest.raises(InvalidConfig) as error:
        settings_of("--config", properties(text))
    assert f"{place})" in str(error.value)


def test_the_file_is_not_blamed_for_what_came_from_elsewhere(properties):
    with pytest.raises(InvalidConfig) as error:
        settings_of("--config", properties("num.partitions=3"), "--set", "num.partitions=x")
    assert "line" not in str(error.value)


@pytest.mark.parametrize(
    ("listen", "sentence"),
    [
        ("127.0.0.1:99999", "the port 99999 is above 65535"),
        ("127.0.0.1:abc", "the port 'abc' is no number"),
        ("127.0.0.1", "the port is missing"),
        ("9092", "the host is missing"),
        ("a:b:c:1", "this is no address"),
    ],
)
def test_an_address_that_is_none_is_told_what_is_wrong(listen, sentence):
    with pytest.raises(InvalidConfig) as error:
        settings_of("--listen", listen)
    assert sentence in str(error.value)
    with pytest.raises(InvalidConfig) as error:
        settings_of("--set", f"listeners=PLAINTEXT://{listen}")
    assert sentence in str(error.value)


def test_a_host_that_nobody_knows_is_not_called_open_to_all(monkeypatch):
    def unknown(*_):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(Failure, match="nobody knows a host of that name"):
        settings_of("--listen", "nowhere:9092")
    settings = settings_of("--set", "listeners=PLAINTEXT://nowhere:9092", "--insecure")
    assert "nobody knows" in explain(socket.gaierror(socket.EAI_NONAME, "?"), settings)


def test_unknown_names_in_the_environment_are_a_warning_without_their_values():
    environment = {"KAFKA_BOOTSTRAP_SERVERS": "hunter2:9092", "KAFKA_NUM_PARTITION": "2", "KAFKA_HEAP_OPTS": "-Xmx1g"}
    _, notes = read_settings(options(), environment)
    assert len(notes) == 2
    assert "did you mean 'num.partitions'" in notes[1]
    assert "hunter2" not in str(notes)


def test_our_own_variables_and_the_images_are_read():
    environment = {
        "OTTLA_LOG_FORMAT": "json",
        "OTTLA_RECORDS": "python",
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
    }
    settings = settings_of(environment=environment)
    assert settings.ottla_log_format == "json"
    assert settings.ottla_cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert settings.ottla_log_level == "WARNING"


def test_a_compose_file_made_for_kafka_4_starts():
    environment = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_NUM_PARTITIONS": "3",
    }
    settings, notes = read_settings(options(), environment)
    assert notes == []
    assert (settings.wanted_id, settings.num_partitions) == (1, 3)
    assert [each.name for each in settings.endpoints] == ["PLAINTEXT"]


def test_an_open_listener_needs_the_word_insecure():
    with pytest.raises(InvalidSetting, match="can be reached from other machines"):
        settings_of("--listen", "10.0.0.1:9092")
    assert settings_of("--listen", "10.0.0.1:9092", "--insecure").endpoints


def test_a_missing_file_is_a_sentence(tmp_path, capsys):
    assert main(["broker", "start", "--config", str(tmp_path / "nothing.properties")]) == FAILED
    err = capsys.readouterr().err
    assert err.startswith("ottla: cannot read ")
    assert "Check the path after --config" in err


def test_a_bad_setting_is_a_sentence(capsys):
    assert main(["broker", "start", "--set", "num.partitions=many"]) == FAILED
    err = capsys.readouterr().err
    assert "num.partitions='many'; it must be a whole number, at least 1" in err
    assert "Traceback" not in err


# --- the life of a broker ------------------------------------------------------------------------------------------


def start(serve, *words):
    return run_start(options("--data", "/somewhere", *words), {}, serve)


def test_the_ready_line_is_on_stdout_and_says_where(capsys):
    async def serve(settings, *, ready, stop):
        ready(Info())

    assert start(serve) == OK
    assert capsys.readouterr().out == (
        "ottla: broker 0 is ready at 127.0.0.1:9092"
        " (data: /somewhere, cluster id abc, metrics and health: http://127.0.0.1:9644)\n"
    )


@pytest.mark.parametrize(
    ("servers", "told"), [("127.0.0.1:9092", "clicks; Ctrl-C"), ("127.0.0.1:7", "clicks -b 127.0.0.1:7; ")]
)
def test_a_person_who_watches_is_told_what_to_do_next(capsys, monkeypatch, servers, told):
    async def serve(settings, *, ready, stop):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        ready(Info(bootstrap_servers=servers))

    assert start(serve) == OK
    assert told in capsys.readouterr().out.splitlines()[1]


@pytest.mark.parametrize(
    ("address", "told"), [(None, "health: off)"), (("::1", 9644), "health: http://[::1]:9644)")], ids=["off", "IPv6"]
)
def test_the_ready_line_says_where_metrics_and_health_are(capsys, address, told):
    async def serve(settings, *, ready, stop):
        ready(Info(admin_address=address))

    assert start(serve) == OK
    assert told in capsys.readouterr().out


def test_the_ready_line_names_every_part_that_is_served_over_http(capsys):
    parts = (Opened("console", ("127.0.0.1", 9644)), Opened("registry", ("127.0.0.1", 8081)))

    async def serve(settings, *, ready, stop):
        ready(Info(http_parts=parts))

    assert start(serve) == OK
    said = capsys.readouterr().out
    assert "console, metrics and health: http://127.0.0.1:9644, registry: http://127.0.0.1:8081)" in said


def test_garbage_is_collected_while_the_server_runs():
    seen = []

    async def serve(settings, *, ready, stop):
        seen.append(gc.isenabled())

    assert start(serve) == OK
    assert [*seen, gc.isenabled()] == [True, True]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server_in_order(number, capsys):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    steps = []

    async def serve(settings, *, ready, stop):
        ready(Info())
        os.kill(os.getpid(), number)
        await stop.wait()
        steps.append("closed")

    try:
        assert start(serve) == OK
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])
    assert steps == ["closed"]
    assert f"{number.name}: stopping" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "sentences"),
    [
        (OSError(errno.EADDRINUSE, "in use"), ["127.0.0.1:9092: the port is taken", "--listen HOST:PORT"]),
        (OSError(errno.EADDRNOTAVAIL, "no"), ["no such address"]),
        (PermissionError(errno.EACCES, "no"), ["ports below 1024"]),
        (
            PermissionError(errno.EACCES, "Permission denied", "/data"),
            ["cannot use /data: Permission denied", "--data"],
        ),
        (OSError(errno.ENOSPC, "No space left", "/data"), ["Make room on that disk"]),
        (OSError(errno.ENOTDIR, "Not a directory", "/data"), ["A file is in the way"]),
        (OSError(errno.EMFILE, "Too many open files"), ["the broker stopped: Too many open files"]),
    ],
)
def test_a_start_that_fails_says_why_and_what_to_do(error, sentences):
    async def serve(settings, *, ready, stop):
        raise error

    with pytest.raises(Failure) as failure:
        start(serve)
    assert all(sentence in str(failure.value) for sentence in sentences)


def test_an_error_of_our_own_is_its_sentence():
    async def serve(settings, *, ready, stop):
        raise InvalidSetting("the directory /data belongs to the cluster xyz")

    with pytest.raises(Failure, match="belongs to the cluster xyz"):
        start(serve)


def test_a_fault_is_logged_with_its_trace_and_ends_with_1(capsys):
    async def serve(settings, *, ready, stop):
        raise ZeroDivisionError("oops")

    assert start(serve) == FAILED
    line = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert line["level"] == "ERROR"
    assert "ZeroDivisionError: oops" in line["exception"]


def test_settings_without_effect_are_named_once(capsys):
    async def serve(settings, *, ready, stop):
        pass

    assert start(serve, "--set", "num.io.threads=4", "--set", "unstable.api.versions.enable=true") == OK
    messages = [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()]
    assert messages == [
        "set, but without effect: num.io.threads (one loop serves everything, there are no such threads); "
        "unstable.api.versions.enable (unstable versions of APIs are not offered)"
    ]


def test_a_setting_that_would_protect_nobody_ends_the_start_with_the_reason():
    async def serve(settings, *, ready, stop):
        pytest.fail("it started")

    reason = "zookeeper.ssl.ocsp.enable would protect nobody: revoked certificates of ZooKeeper are not recognized"
    with pytest.raises(Failure, match=reason):
        start(serve, "--set", "zookeeper.ssl.ocsp.enable=true")


@pytest.mark.parametrize(
    "name",
    [
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
    ],
)
def test_replicas_that_cannot_be_and_everybody_would_wait_for_end_the_start(name):
    async def serve(settings, *, ready, stop):
        pytest.fail("it must not start")

    with pytest.raises(Failure, match=r"on a broker that is alone: no .* could work; set it to 1"):
        start(serve, "--set", f"{name}=3")


def test_replicas_that_cannot_be_are_warned_of(capsys):
    async def serve(settings, *, ready, stop):
        pass

    assert start(serve, "--set", "default.replication.factor=3", "--set", "min.insync.replicas=2") == OK
    messages = [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()]
    assert messages == [
        "default.replication.factor=3 on a broker that is alone: topics that are made without a number of replicas "
        "fail; set it to 1",
        "min.insync.replicas=2 on a broker that is alone: writes with acks=all fail; set it to 1",
    ]


def test_a_directory_that_is_a_file_is_called_one(tmp_path):
    async def serve(settings, *, ready, stop):
        pytest.fail("it must not start")

    file = tmp_path / "file"
    file.write_text("")
    for path in (file, file / "below"):
        with pytest.raises(Failure, match="file is a file"):
            run_start(options("--data", str(path)), {}, serve)


def test_what_would_only_seem_to_protect_ends_the_start():
    async def serve(settings, *, ready, stop):
        pytest.fail("it must not start")

    with pytest.raises(Failure, match="without an authorizer everybody may do everything"):
        start(serve, "--set", "super.users=User:admin")


def test_explain_names_all_listeners():
    settings = settings_of("--set", "listeners=PLAINTEXT://127.0.0.1:1,SSL://[::1]:2")
    assert "127.0.0.1:1, [::1]:2" in explain(OSError(errno.EADDRINUSE, "x"), settings)


def test_an_admin_port_that_is_taken_is_not_blamed_on_the_client_port():
    settings = settings_of("--set", "ottla.admin.listener=127.0.0.1:9644")
    told = explain(AdminListenerFailed("127.0.0.1", 9644, OSError(errno.EADDRINUSE, "in use")), settings)
    assert "admin listener" in told
    assert "127.0.0.1:9644: in use" in told
    assert "ottla.admin.listener" in told
    assert "9092" not in told
    assert "--listen" not in told


# --- ottla broker settings -----------------------------------------------------------------------------------------


def test_settings_are_found_by_a_word(capsys):
    assert main(["broker", "settings", "log.retention", "--wide"]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("NAME")
    assert [line.split()[0] for line in lines[1:]] == [
        *("log.retention.bytes", "log.retention.check.interval.ms", "log.retention.hours"),
        *("log.retention.minutes", "log.retention.ms"),
    ]


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_settings_fit_the_terminal(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["broker", "settings"]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= min(columns, 100)
    assert "num.partitions=1" in lines


def test_every_setting_is_explained_without_its_neighbours(capsys):
    assert main(["broker", "settings", "--format", "json"]) == OK
    texts = [each["what_it_does"] for each in json.loads(capsys.readouterr().out)]
    assert [text for text in texts if re.search(r"\bsuch\b(?! as\b)|\bthe same as above\b", text)] == []


def test_settings_as_json(capsys):
    assert main(["broker", "settings", "auto.create", "--format", "json"]) == OK
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["name"], found["default"]) == ("auto.create.topics.enable", "true")


def test_a_setting_without_effect_is_marked_in_every_form(capsys):
    reason = "one loop serves everything, there are no such threads"
    assert main(["broker", "settings", "num.io.threads"]) == OK
    assert f"No effect here: {reason}." in " ".join(capsys.readouterr().out.split())
    assert main(["broker", "settings", "num.io.threads", "--wide"]) == OK
    assert f"none: {reason}" in capsys.readouterr().out
    assert main(["broker", "settings", "num.", "--format", "json"]) == OK
    effects = {each["name"]: each["effect"] for each in json.loads(capsys.readouterr().out)}
    assert (effects["num.io.threads"], effects["num.partitions"]) == (f"none: {reason}", "yes")


def test_no_setting_of_that_word_is_a_failure():
    assert main(["broker", "settings", "nothing-like-it"]) == FAILED


def test_start_help_has_examples(capsys):
    with pytest.raises(SystemExit):
        main(["broker", "start", "--help"])
    assert "ottla broker start --config server.properties" in capsys.readouterr().out


def test_the_options_are_those_of_the_documentation():
    assert isinstance(options("--config", "f", "--set", "a=b", "--data", "d", "--listen", "h:1"), argparse.Namespace)
