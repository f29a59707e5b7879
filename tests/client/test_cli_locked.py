"""The commands against a broker that asks for logins and checks rights: rules, tokens, files for clients, metrics."""

import base64
import io
import json
import sys
import urllib.error
import urllib.request

import pytest
from tests.patience import HANG_S

from ottla.cli.client_files import properties_text, scram_login, write_secret
from ottla.cli.main import main
from ottla.cli.output import FAILED, OK
from ottla.testing import KafkaBroker

SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "delegation.token.secret.key": "shared",
    "ottla.admin.listener": "127.0.0.1:0",
    "ottla.admin.login": "true",
}


@pytest.fixture(scope="module")
def locked():
    with KafkaBroker(SETTINGS, users={"admin": "a-word"}) as broker:
        yield broker


@pytest.fixture
def files(locked, tmp_path, monkeypatch):
    """Settings files by user; that of admin is there and is what commands use."""
    settings = {
        "bootstrap.servers": locked.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": scram_login("admin", "a-word"),
    }
    write_secret(tmp_path / "admin.properties", properties_text(settings, "admin"))
    monkeypatch.setenv("OTTLA_COMMAND_CONFIG", str(tmp_path / "admin.properties"))
    return tmp_path


@pytest.fixture
def ottla(files, capfd, monkeypatch):
    def run(text, stdin="", user=None):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        words = text.split() + ([] if user is None else ["--command-config", str(files / f"{user}.properties")])
        try:
            code = main(words)
        except SystemExit as ended:
            code = ended.code
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture
def alice(ottla, files, unique_topic):
    """A user with a settings file of her own and no rights; gone after the test, with her rules."""
    name = f"alice-{unique_topic}"
    code, _, err = ottla(f"user create {name} --generate --client-config {files / name}.properties")
    assert code == OK, err
    yield name
    ottla(f"acl remove --allow {name} --if-exists --yes")
    ottla(f"user delete {name} --yes")


def as_json(answer):
    code, out, err = answer
    assert code == OK, err
    return json.loads(out)


def test_a_user_may_do_what_rules_allow_and_no_more(ottla, alice, unique_topic):
    assert ottla(f"topic create {unique_topic}")[0] == OK
    code, _, err = ottla(f"produce {unique_topic} --timeout 30", stdin="hello\n", user=alice)
    assert code == FAILED
    assert unique_topic in err
    ottla(f"acl add --allow {alice} --operation read --topic {unique_topic}")
    code, _, err = ottla(f"produce {unique_topic} --timeout 30", stdin="hello\n", user=alice)
    assert (code, "a rule for WRITE on the topic is enough" in err) == (FAILED, True)
    ottla(f"acl remove --allow {alice} --topic {unique_topic} --yes")
    assert ottla(f"acl add --allow {alice} --producer --topic {unique_topic}")[0] == OK
    assert ottla(f"produce {unique_topic}", stdin="hello\n", user=alice)[0] == OK
    code, _, err = ottla(f"consume {unique_topic} -e --timeout 30", user=alice)
    assert code == FAILED, "a producer may not read"
    ottla(f"acl add --allow {alice} --operation read --topic {unique_topic}")
    assert ottla(f"consume {unique_topic} -e", user=alice)[1] == "hello\n"


def test_rules_are_added_listed_by_what_applies_and_removed(ottla, alice, unique_topic):
    prefix = unique_topic[:-3]
    ottla(f"acl add --allow {alice} --producer --topic {unique_topic}")
    ottla(f"acl add --deny {alice} --operation delete --topic {prefix} --prefixed --host 10.0.0.7")
    found = as_json(ottla(f"acl list --topic {unique_topic} --principal {alice} --json"))
    assert {(each["operation"], each["pattern"], each["permission"], each["host"]) for each in found} == {
        ("Write", "literal", "allow", "*"),
        ("Describe", "literal", "allow", "*"),
        ("Create", "literal", "allow", "*"),
        ("Delete", "prefixed", "deny", "10.0.0.7"),
    }
    code, _, err = ottla(f"acl remove --allow {alice} --topic {unique_topic} --operation write")
    assert code == FAILED
    assert "Write" in err
    assert "add --yes if you mean it" in err
    code, out, _ = ottla(f"acl remove --allow {alice} --topic {unique_topic} --operation write --yes")
    assert (code, out) == (OK, "removed 1 rule\n")
    code, out, _ = ottla(f"acl remove --allow {alice} --deny {alice} --yes")
    assert (code, out) == (OK, "removed 3 rules\n")
    code, _, err = ottla(f"acl remove --allow {alice} --yes")
    assert (code, "there is no such rule" in err) == (FAILED, True)


def test_who_may_only_describe_sees_what_there_is_without_settings_and_sizes(ottla, alice, unique_topic):
    assert ottla(f"topic create {unique_topic} -p 2")[0] == OK
    ottla(f"acl add --allow {alice} --operation describe --topic {unique_topic}")
    code, out, err = ottla(f"topic describe {unique_topic}", user=alice)
    assert code == OK, err
    assert "settings are not shown" in out
    (described,) = as_json(ottla(f"topic describe {unique_topic} --json", user=alice))
    assert (described["configs"], len(described["partitions"])) == (None, 2)
    code, _, err = ottla(f"topic describe {unique_topic} another", user=alice)
    assert (code, "another" in err) == (FAILED, True)
    found = as_json(ottla("cluster describe --json", user=alice))
    assert (found["topics"], found["brokers"][0]["bytes"]) == (1, None)


def test_the_doctor_finds_nothing_wrong_with_few_rights(ottla, alice):
    code, out, _ = ottla("doctor", user=alice)
    assert code == OK, out
    assert "this user may not see it" in out


def test_rules_that_a_deleted_user_leaves_are_told(ottla, unique_topic):
    ottla(f"user create {unique_topic}", stdin="word\n")
    ottla(f"acl add --allow {unique_topic} --topic clicks")
    code, out, _ = ottla(f"user delete {unique_topic} --yes")
    assert (code, "are left (1): ottla acl remove" in out) == (OK, True)
    assert ottla(f"acl remove --allow {unique_topic} --deny {unique_topic} --yes")[0] == OK


def test_rules_need_the_right_to_change_them(ottla, alice, unique_topic):
    code, _, err = ottla(f"acl add --allow {alice} --topic {unique_topic}", user=alice)
    assert code == FAILED
    assert "luster" in err


def test_a_wrong_password_is_a_sentence_without_it(ottla, files, alice):
    text = (files / f"{alice}.properties").read_text()
    (files / "mallory.properties").write_text(text.replace('password="', 'password="not-the-word'))
    code, out, err = ottla("topic list --timeout 30", user="mallory")
    assert code == FAILED
    assert err.count("\n") == 1
    assert "uthentication" in err or "login" in err
    assert "not-the-word" not in out + err


def test_tokens_are_made_used_renewed_and_expired(ottla, files, alice):
    token = as_json(ottla(f"token create --json --client-config {files}/job.properties", user=alice))
    assert token["owner"] == f"User:{alice}"
    assert "hmac" not in token
    assert ottla("topic list", user="job")[0] == OK
    (listed,) = as_json(ottla("token list --json", user=alice))
    assert listed == token
    code, out, _ = ottla(f"token renew {token['token_id']} --for 1h --json", user=alice)
    assert code == OK
    assert json.loads(out)[0]["expires"] < token["expires"]
    assert ottla(f"token expire {token['token_id']}", user=alice)[0] == OK
    code, _, err = ottla(f"token expire {token['token_id']}", user=alice)
    assert (code, "there is no token" in err) == (FAILED, True)
    assert ottla("topic list --timeout 30", user="job")[0] == FAILED


def test_a_token_may_be_for_somebody_else_to_renew(ottla, alice):
    code, out, _ = ottla(f"token create --renewer {alice} --max-life 2h")
    assert code == OK
    lines = dict(line.split(maxsplit=1) for line in out.splitlines() if not line.startswith(("token id", "at the")))
    assert lines["renewers"] == f"User:{alice}"
    assert len(lines["hmac"]) == 88
    code, _, err = ottla("token create --max-life soon")
    assert (code, "write a length of time" in err) == (FAILED, True)


# --- metrics ---------------------------------------------------------------------------------------------------------


def metrics(broker, login=None):
    host, port = broker.info.admin_address
    request = urllib.request.Request(f"http://{host}:{port}/metrics")
    if login is not None:
        request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    with urllib.request.urlopen(request, timeout=HANG_S) as answer:
        return answer.read().decode()


def test_metrics_want_the_same_login(locked):
    assert "kafka" in metrics(locked, "admin:a-word")
    for login in (None, "admin:another", "nobody:a-word"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            metrics(locked, login)
        with refused.value as answer:
            assert answer.code == 401
