"""Share groups on the command line, against a real broker."""

from __future__ import annotations

import json
import time

import pytest
from tests.client import test_share_consumer as shared
from tests.client.test_share_consumer import configure, member, produce
from tests.patience import HANG_S

from ottla.cli.main import main
from ottla.cli.output import FAILED, OK

broker = shared.broker
topic = shared.topic


@pytest.fixture
def group(broker, unique_group):
    configure(broker, unique_group, "share.auto.offset.reset", "earliest")
    return unique_group


@pytest.fixture
def command(broker, capfdbinary, monkeypatch):
    """Runs a command; gives its exit code, stdout and stderr."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)

    def run(*words):
        try:
            code = main([str(word) for word in words])
        except SystemExit as ended:
            code = ended.code
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run


def test_consume_share_prints_and_accepts(command, broker, topic, group):
    produce(broker, topic, b"one", b"two", b"three")
    assert command("consume", topic, "--share", "-g", group, "-n", 2)[:2] == (OK, "one\ntwo\n")
    code, out, err = command("consume", topic, "--share", "-g", group, "-n", 1, "-f", "json")
    assert code == OK, err
    assert json.loads(out)["value"] == "three"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--share",), "-g GROUP"),
        (("--share", "-g", "g", "-o", "beginning"), "share.auto.offset.reset"),
        (("--share", "-g", "g", "-e"), "--idle"),
        (("--share", "-g", "g", "-p", "0"), "leave out -p"),
    ],
)
def test_what_has_no_meaning_for_a_share_group_is_refused(command, words, sentence):
    code, _, err = command("consume", "t", *words)
    assert code == FAILED
    assert sentence in err


def test_a_share_group_is_listed_described_moved_and_deleted(command, broker, topic, group):
    produce(broker, topic, b"one", b"two", b"three")
    with member(broker, group, topic, share_acknowledgement_mode="explicit") as consumer:
        deadline = time.monotonic() + HANG_S
        while not (found := consumer.poll(1.0)):
            assert time.monotonic() < deadline
        for record in found:
            record.accept()
        consumer.commit()
        assert topic in command("group", "describe", group, "--members")[1]
        assert f"{group}: Stable, share group, 1 member, lag 0 records" in command("group", "describe", group)[1]
    assert group in command("group", "list", "--type", "share")[1]
    (described,) = json.loads(command("group", "describe", group, "--format", "json")[1])
    assert (described["type"], described["state"], described["members"]) == ("share", "Empty", [])
    code, out, err = command("group", "reset", group, "--topic", topic, "--to-offset", 1)
    assert code == OK, err
    assert "nothing was changed" in out
    assert command("group", "reset", group, "--topic", topic, "--to-offset", 1, "--execute")[0] == OK
    assert command("consume", topic, "--share", "-g", group, "-n", 2)[:2] == (OK, "two\nthree\n")
    assert command("group", "delete-offsets", group, "--topic", topic)[0] == OK
    assert command("group", "delete", group, "--yes")[0] == OK
    assert command("group", "describe", group)[0] == FAILED
