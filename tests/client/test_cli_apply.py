"""`ottla apply` against a real broker: what people write, what they see, and how it ends."""

import io
import json
import sys

import pytest

from ottla import Admin, NewTopic
from ottla.cli.commands.apply import DIFFERENT
from ottla.cli.main import main
from ottla.cli.output import FAILED, OK, WRONG_USAGE
from ottla.testing import KafkaBroker

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
FILE = """\
topics:
  clicks: {partitions: 3, settings: {retention.ms: 3600000, min.cleanable.dirty.ratio: 0.70}}
  visits:
settings:
  broker: {all: {log.cleaner.backoff.ms: 20000}}
  group: {billing: {consumer.session.timeout.ms: 60000}}
users:
  alice: {password: {env: ALICE}}
  bob: {password: {file: bob.secret}, mechanisms: [SCRAM-SHA-256, SCRAM-SHA-512], iterations: 4096}
rules:
  - {allow: alice, producer: true, topic: clicks}
  - {deny: bob, operation: delete, topic: c, prefixed: true}
quotas:
  - {client: loader, produce: 1MB}
"""


@pytest.fixture
def broker():
    with KafkaBroker({"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}) as running:
        yield running


@pytest.fixture
def ottla(broker, capfd, monkeypatch, tmp_path):
    """Runs a command; returns its exit code, stdout and stderr."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setenv("ALICE", "hunter2")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bob.secret").write_text("hunter3\n")
    (tmp_path / "cluster.yml").write_text(FILE)

    def run(text):
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        try:
            code = main(text.split())
        except SystemExit as ended:
            code = ended.code
        out, err = capfd.readouterr()
        assert "hunter" not in out + err
        return code, out, err

    return run


def test_a_cluster_becomes_what_the_file_says_and_stays_so(ottla):
    code, planned, err = ottla("apply cluster.yml --plan")
    assert (code, err) == (OK, "")
    assert "+ topic clicks: 3 partitions, min.cleanable.dirty.ratio=0.70, retention.ms=3600000\n" in planned
    assert "+ user alice: password from env ALICE (SCRAM-SHA-512)\n" in planned
    assert "+ rule: User:bob may not Delete topic c (prefixed)\n" in planned
    assert "+ quota of client-id loader: producer_byte_rate (none) -> 1,000,000\n" in planned
    assert ottla("apply cluster.yml --check")[0] == DIFFERENT
    code, out, err = ottla("apply cluster.yml")
    assert (code, err) == (OK, "")
    assert out == planned + "done: 12 changes made\n"
    same = "nothing to change: the cluster has what the file wants\n"
    assert ottla("apply cluster.yml --check --prune") == (OK, same, "")
    users = json.loads(ottla("user list --json")[1])
    assert [(each["user"], each["iterations"]) for each in users] == [("alice", 16384), ("bob", 4096), ("bob", 4096)]
    assert json.loads(ottla("apply cluster.yml --json")[1]) == {"state": "unchanged", "changes": [], "refused": []}


def test_a_changed_file_changes_only_that(ottla, tmp_path):
    assert ottla("apply cluster.yml")[0] == OK
    text = FILE.replace("partitions: 3", "partitions: 5").replace("3600000", "7200000").replace("1MB", "2MB")
    (tmp_path / "cluster.yml").write_text(text)
    found = json.loads(ottla("apply cluster.yml --json")[1])
    assert found["state"] == "applied"
    assert [(each["kind"], each["before"], each["after"]) for each in found["changes"]] == [
        ("partitions", 3, 5),
        ("setting", "3600000", "7200000"),
        ("quota", 1_000_000.0, 2_000_000.0),
    ]
    assert ottla("apply cluster.yml --check")[0] == OK


def test_prune_deletes_what_the_file_does_not_have_and_asks_before(ottla, broker, tmp_path):
    assert ottla("apply cluster.yml")[0] == OK
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("other"), NewTopic("_schemas")])
        (tmp_path / "cluster.yml").write_text("topics:\n  clicks:\nusers:\nrules:\n")
        assert ottla("apply cluster.yml --check")[0] == OK
        code, out, err = ottla("apply cluster.yml --prune")
        assert code == FAILED
        assert "- topic other with all its records\n" in out
        assert "add --yes if you mean it" in err
        assert ottla("apply cluster.yml --prune --yes")[0] == OK
        assert sorted(admin.list_topics()) == ["_schemas", "clicks"]
        assert admin.describe_user_scram_credentials() == {}
        assert len(admin.describe_client_quotas()) == 1, "the file has no section for quotas"


def test_what_cannot_be_done_is_said_before_anything_is_changed(ottla, tmp_path):
    assert ottla("apply cluster.yml")[0] == OK
    (tmp_path / "cluster.yml").write_text("topics:\n  clicks: {partitions: 2, replication: 3}\n  new:\n")
    code, out, err = ottla("apply cluster.yml")
    assert (code, out) == (FAILED, "+ topic new: as the cluster makes them\n")
    assert "partitions cannot be taken away" in err
    assert "ottla reassign" in err
    (tmp_path / "cluster.yml").write_text("topics:\n  new:\n  clicks: {settings: {retention.ms: soon}}\n")
    code, _, err = ottla("apply cluster.yml")
    assert code == FAILED
    assert "retention.ms" in err
    assert "new" not in ottla("topic list")[1]


def test_a_missing_secret_changes_nothing_and_is_not_needed_for_a_plan(ottla, monkeypatch):
    monkeypatch.delenv("ALICE")
    assert ottla("apply cluster.yml --plan")[0] == OK
    code, _, err = ottla("apply cluster.yml")
    assert (code, "the environment has no ALICE" in err) == (FAILED, True)
    assert ottla("topic list")[1] == ""


def test_a_typing_error_is_not_a_difference(ottla):
    assert ottla("apply cluster.yml --chekc")[0] == WRONG_USAGE
    assert ottla("apply clutser.yml")[0] == FAILED
