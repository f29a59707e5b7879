"""The registry behind logins and access rules: HTTP Basic, and rights on subjects."""

import base64
import json
import urllib.error
import urllib.request

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("starlette", reason="the registry needs ottla[registry]")

from tests.patience import HANG_S
from tests.schema_registry import CONTENT_TYPE, LISTENER, url_of

from ottla import Producer
from ottla.client.admin.access import AclBinding, PatternType, ResourceType
from ottla.client.admin.admin import Admin
from ottla.client.admin.operations import AclOperation
from ottla.errors import TopicAuthorizationFailed
from ottla.testing.broker import KafkaBroker

SETTINGS = {
    **LISTENER,
    "ottla.admin.login": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "connection.failed.authentication.delay.ms": "1",
}
USERS = {"admin": "admin-secret", "reader": "reader-secret", "stranger": "stranger-secret"}
USERS |= {"writer": "writer-secret", "all": "all-secret"}
SUBJECT = "/subjects/clicks-value/versions"
SCHEMA = json.dumps({"schema": '"string"'}).encode()


def status(url, user=None, body=None, method=None, password=None):
    headers = {"Content-Type": CONTENT_TYPE}
    if user is not None:
        login = f"{user}:{password or USERS[user]}"
        headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
    request = urllib.request.Request(url, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=HANG_S) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return json.loads(error.read())["error_code"]


def rule(user, name, operation, pattern_type=PatternType.LITERAL):
    return AclBinding(ResourceType.TOPIC, name, f"User:{user}", operation, pattern_type=pattern_type)


def answered(url, user):
    login = base64.b64encode(f"{user}:{USERS[user]}".encode()).decode()
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {login}"})
    with urllib.request.urlopen(request, timeout=HANG_S) as answer:
        return json.loads(answer.read())


def test_rights_are_those_on_the_subject():
    with KafkaBroker(SETTINGS, users=USERS) as broker:
        url = url_of(broker.info.http_parts)
        assert status(url + SUBJECT, body=SCHEMA) == 401
        assert status(url + SUBJECT, "admin", SCHEMA, password="wrong") == 401
        assert status(url + SUBJECT, "admin", SCHEMA) == 200
        other = json.dumps({"schema": '"int"'}).encode()
        assert status(url + "/subjects/pay%2Fslips/versions", "admin", other) == 200
        rules = [
            rule("reader", "_schemas:clicks-value", AclOperation.READ),
            rule("writer", "_schemas:clicks-", AclOperation.WRITE, PatternType.PREFIXED),
            rule("writer", "_schemas:clicks-value", AclOperation.ALTER_CONFIGS),
            rule("all", "_schemas:", AclOperation.READ, PatternType.PREFIXED),
        ]
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_acls(rules)
        assert [status(url + SUBJECT, user) for user in ("reader", "stranger", "all")] == [200, 403, 200]
        assert [status(url + SUBJECT, user, SCHEMA) for user in ("writer", "reader")] == [200, 403]
        assert status(url + "/subjects/pay%2Fslips/versions", "writer", SCHEMA) == 403
        assert [status(url + f"/schemas/ids/{number}", "reader") for number in (1, 2, 3)] == [200, 403, 403]
        assert [status(url + f"/schemas/ids/{number}", "all") for number in (1, 2, 3)] == [200, 200, 40403]
        assert answered(url + "/subjects", "reader") == ["clicks-value"]
        assert {each["subject"] for each in answered(url + "/schemas", "reader")} == {"clicks-value"}
        assert answered(url + "/subjects", "stranger") == []
        assert answered(url + "/subjects", "all") == ["clicks-value", "pay/slips"]
        level = json.dumps({"compatibility": "NONE"}).encode()
        assert [status(url + "/config", user, level, "PUT") for user in ("admin", "writer")] == [200, 403]
        alias = json.dumps({"alias": "pay/slips"}).encode()
        assert [status(url + "/config/clicks-value", "writer", body, "PUT") for body in (level, alias)] == [200, 403]
        deleted = [status(url + "/subjects/clicks-value", user, method="DELETE") for user in ("writer", "admin")]
        assert deleted == [403, 200]


def test_only_the_registry_and_super_users_write_its_topic():
    login = {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT", "sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    settings = {**SETTINGS, **login, "super.users": "User:admin", "ottla.allow.insecure.listeners": "true"}
    with KafkaBroker(settings, users=USERS) as broker:
        url = url_of(broker.info.http_parts)
        assert status(url + SUBJECT, "admin", SCHEMA) == 200

        def as_user(user):
            return {
                "bootstrap_servers": broker.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": user,
                "sasl.password": USERS[user],
            }

        with Admin(**as_user("admin")) as admin:
            admin.create_acls([rule("writer", "_schemas", AclOperation.ALL), rule("writer", "*", AclOperation.ALL)])
        with Producer(**as_user("writer")) as producer:
            producer.send("clicks", b"his").result(HANG_S)
            with pytest.raises(TopicAuthorizationFailed):
                producer.send("_schemas", b"forged", key=b"{}").result(HANG_S)
        assert status(url + SUBJECT, "writer", json.dumps({"schema": '"bytes"'}).encode()) == 200
        with Producer(**as_user("admin")) as producer:
            producer.send("_schemas", b"{}", key=b'{"keytype":"NOOP","magic":0}').result(HANG_S)


def shown(broker, user):
    """The first record of a topic, as the console shows it to this user."""
    host, port = broker.info.admin_address
    login = base64.b64encode(f"{user}:{USERS[user]}".encode()).decode()
    address = f"http://{host}:{port}/api/topics/clicks/records?from=earliest"
    request = urllib.request.Request(address, headers={"Authorization": f"Basic {login}"})
    with urllib.request.urlopen(request, timeout=HANG_S) as answer:
        return json.loads(answer.read())["records"][0]["value"]


def test_the_console_reads_records_by_schemas_for_those_who_may_read_these():
    with KafkaBroker({**SETTINGS, "ottla.admin.listener": "127.0.0.1:0"}, users=USERS) as broker:
        url = url_of(broker.info.http_parts)
        assert status(url + SUBJECT, "admin", SCHEMA) == 200
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("clicks", b"\0\0\0\0\1\2a")
        rules = [
            AclBinding(ResourceType.TOPIC, topic, f"User:{user}", AclOperation.READ)
            for user, topic in (("reader", "clicks"), ("reader", "_schemas:"), ("writer", "clicks"))
        ]
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_acls(rules)
        assert (shown(broker, "reader")["text"], shown(broker, "reader")["schema"]["subject"]) == (
            '"a"',
            "clicks-value",
        )
        assert (shown(broker, "writer")["text"], "schema" in shown(broker, "writer")) == ("02 61", False)
