"""Passwords come in by the terminal, a file or stdin, and go out into files that only their owner can read."""

import argparse
import io
import os
import stat
from pathlib import Path

import pytest

from ottla.cli import passwords
from ottla.cli.client_files import client_settings, properties_text, scram_login, write_secret
from ottla.cli.connecting import confirmed
from ottla.cli.output import Failure
from ottla.net.sasl.jaas import parse_jaas
from ottla.properties import parse_properties


def options(**changes):
    return argparse.Namespace(**{"generate": False, "password_file": None, **changes})


def test_a_password_is_the_first_line_of_a_file_or_of_stdin(tmp_path, monkeypatch):
    file = tmp_path / "secret.txt"
    file.write_text("correct horse\nbattery\n")
    assert passwords.password_of(options(password_file=file)) == "correct horse"
    for named in (None, Path("-")):
        monkeypatch.setattr("sys.stdin", io.StringIO("staple\r\n"))
        assert passwords.password_of(options(password_file=named)) == "staple"


def test_on_a_terminal_it_is_asked_for_twice(monkeypatch):
    answers = iter(["one", "one", "one", "two"])
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(answers))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert passwords.password_of(options()) == "one"
    with pytest.raises(Failure, match="not the same"):
        passwords.password_of(options())


def test_ctrl_d_is_no_password_and_no_confirmation(monkeypatch, capsys):
    def end(prompt):
        raise EOFError

    monkeypatch.setattr("getpass.getpass", end)
    monkeypatch.setattr("builtins.input", end)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    with pytest.raises(Failure, match="nothing was changed"):
        passwords.password_of(options())
    assert confirmed("Delete it?", yes=False) is False


def test_generated_passwords_differ_and_need_no_quotes():
    made = {passwords.password_of(options(generate=True)) for _ in range(50)}
    assert len(made) == 50
    assert all(len(each) == 24 and each.replace("-", "").replace("_", "").isalnum() for each in made)


@pytest.mark.parametrize("content", ["", "\nsecret\n", "x" * 1025])
def test_no_password_and_one_without_end_are_refused_without_showing_it(content, tmp_path):
    file = tmp_path / "secret.txt"
    file.write_text(content)
    with pytest.raises(Failure) as failure:
        passwords.password_of(options(password_file=file))
    assert "xxxx" not in str(failure.value)


def test_a_file_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(Failure, match="cannot read"):
        passwords.password_of(options(password_file=tmp_path / "none"))


@pytest.mark.parametrize("password", ["plain", 'with "quotes" and \\', " spaces ", "grün 🔒", "a=b;c"])
def test_what_is_written_is_read_back(password):
    text = properties_text({"sasl.jaas.config": scram_login("alice", password)}, "a comment")
    assert text.isascii()
    entry = parse_jaas(parse_properties(text)["sasl.jaas.config"])
    assert entry.kind == "ScramLoginModule"
    assert entry.options == {"username": "alice", "password": password}


def test_somebody_elses_file_has_the_connection_and_not_the_login():
    mine = {
        "bootstrap.servers": "broker:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "mine",
        "sasl.password": "mine",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.location": "/mine.pem",
        "ssl.key.password": "mine",
        "request.timeout.ms": "5",
    }
    assert client_settings(mine, "SCRAM-SHA-512", "theirs") == {
        "bootstrap.servers": "broker:9092",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": "/ca.pem",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "theirs",
    }
    assert client_settings({}, "SCRAM-SHA-512", "x")["security.protocol"] == "SASL_PLAINTEXT"


def test_only_the_owner_reads_the_file_and_it_is_not_replaced(tmp_path):
    path = tmp_path / "alice.properties"
    before = os.umask(0)
    try:
        write_secret(path, "a=b\n")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(Failure, match="is there already"):
        write_secret(path, "c=d\n")
    write_secret(path, "c=d\n", replace=True)
    assert path.read_text() == "c=d\n"
    assert [each.name for each in tmp_path.iterdir()] == ["alice.properties"]


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(Failure, match="cannot write"):
        write_secret(tmp_path / "none" / "file", "x")
