"""`ottla user` and `ottla quota` against a real broker: what people type, what they see, and how it ends."""

import io
import json
import stat
import sys

import pytest

from ottla.cli.main import main
from ottla.cli.output import FAILED, OK
from ottla.properties import read_properties


@pytest.fixture
def ottla(kafka_broker_fresh, capfd, monkeypatch):
    """Runs a command; returns its exit code, stdout and stderr."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", kafka_broker_fresh.bootstrap_servers)

    def run(text, stdin=""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        try:
            code = main(text.split())
        except SystemExit as ended:
            code = ended.code
        out, err = capfd.readouterr()
        return code, out, err

    return run


def as_json(answer):
    code, out, err = answer
    assert code == OK, err
    return json.loads(out)


# --- users -----------------------------------------------------------------------------------------------------------


def test_a_user_is_created_listed_and_deleted(ottla):
    assert ottla("user create alice", stdin="secret\n") == (OK, "created alice (SCRAM-SHA-512)\n", "")
    assert as_json(ottla("user list --json")) == [
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 16_384},
    ]
    assert ottla("user delete alice --yes") == (OK, "deleted alice\n", "")
    assert as_json(ottla("user list --json")) == []


def test_one_user_may_have_both_mechanisms_and_one_password(ottla):
    ottla("user create alice -m SCRAM-SHA-256 -m SCRAM-SHA-512 --iterations 4096", stdin="secret\n")
    assert [each["mechanism"] for each in as_json(ottla("user list alice --json"))] == [
        "SCRAM-SHA-256",
        "SCRAM-SHA-512",
    ]
    code, out, _ = ottla("user set-password alice", stdin="other\n")
    assert (code, out) == (OK, "changed alice (SCRAM-SHA-256, SCRAM-SHA-512)\n")
    ottla("user delete alice -m SCRAM-SHA-256 --yes")
    assert [each["mechanism"] for each in as_json(ottla("user list --json"))] == ["SCRAM-SHA-512"]


def test_a_typing_error_changes_nobody(ottla):
    ottla("user create alice", stdin="secret\n")
    code, _, err = ottla("user create alice", stdin="secret\n")
    assert code == FAILED
    assert "there is a user alice already" in err
    code, _, err = ottla("user set-password alcie", stdin="secret\n")
    assert (code, err) == (FAILED, "ottla: there is no user alcie; to make one: ottla user create alcie\n")
    code, _, err = ottla("user delete alcie --yes")
    assert (code, err) == (FAILED, "ottla: there is no user alcie; nothing was deleted\n")
    assert ottla("user delete alcie --if-exists --yes")[0] == OK
    code, _, err = ottla("user delete alice")
    assert code == FAILED
    assert "add --yes if you mean it" in err


def test_a_generated_password_is_printed_once_and_written_for_its_user(ottla, tmp_path):
    file = tmp_path / "alice.properties"
    made = as_json(ottla(f"user create alice --generate --json --client-config {file}"))
    assert len(made["password"]) == 24
    settings = read_properties(file)
    assert f'username="alice" password="{made["password"]}"' in settings["sasl.jaas.config"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    code, _, err = ottla(f"user set-password alice --generate --client-config {file}")
    assert code == FAILED
    assert "is there already" in err
    code, out, _ = ottla("user set-password alice", stdin="secret-word\n")
    assert (code, "secret-word" in out) == (OK, False)


def test_a_password_is_never_an_argument(ottla):
    code, _, err = ottla("user create alice --password secret-word")
    assert (code, "on the command line" in err, "secret-word" in err) == (2, True, False)
    assert as_json(ottla("user list --json")) == []


# --- quotas ----------------------------------------------------------------------------------------------------------


def test_quotas_are_set_listed_and_removed(ottla):
    code, out, _ = ottla("quota set --client loader --produce 1MB --request-percentage 50")
    assert (code, out) == (OK, "limited client loader: producer_byte_rate 1,000,000, request_percentage 50\n")
    ottla("quota set --user alice --default client --consume 2MiB")
    ottla("quota set --default ip --connection-rate 10")
    assert as_json(ottla("quota list --json")) == [
        {"entity": {"client-id": None, "user": "alice"}, "quotas": {"consumer_byte_rate": 2_097_152.0}},
        {"entity": {"client-id": "loader"}, "quotas": {"producer_byte_rate": 1e6, "request_percentage": 50.0}},
        {"entity": {"ip": None}, "quotas": {"connection_creation_rate": 10.0}},
    ]
    assert len(as_json(ottla("quota list --json --client loader"))) == 1
    assert ottla("quota remove --client loader --produce")[0] == OK
    code, _, err = ottla("quota remove --client loader --produce")
    assert (code, err) == (FAILED, "ottla: client loader has no such quota; nothing was removed\n")
    assert ottla("quota remove --client loader")[1] == "removed request_percentage of client loader\n"
    assert ottla("quota remove --client loader --if-exists")[0] == OK


def test_quotas_are_a_table_for_people(ottla):
    assert ottla("quota list")[1] == "no quota\n"
    ottla("quota set --user alice --produce 1MB")
    ottla("quota set --default user --consume 2MB")
    lines = ottla("quota list")[1].splitlines()
    assert lines[0].split() == ["USER", "PRODUCE", "B/S", "CONSUME", "B/S"]
    assert [line.split() for line in lines[1:]] == [["(default)", "-", "2000000"], ["alice", "1000000", "-"]]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("--produce 1MB", "nobody is named"),
        ("--user alice", "no limit is named"),
        ("--user alice --produce 1M", "write bytes as"),
        ("--user alice --produce 0", "a quota is above zero"),
        ("--user alice --connection-rate 5", "--connection-rate is for addresses"),
        ("--ip 10.0.0.7 --produce 5", "an address has a --connection-rate and no other"),
        ("--ip 10.0.0.7 --user alice --connection-rate 5", "leave --user and --client out"),
        ("--user alice --default user --produce 5", "exclude each other"),
    ],
)
def test_what_cannot_be_limited_is_told(ottla, text, sentence):
    code, _, err = ottla(f"quota set {text}")
    assert code == FAILED
    assert sentence in err
