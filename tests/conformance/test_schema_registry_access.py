"""The registry behind logins and access rules: HTTP Basic, and rights on the topic _schemas."""

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
from ottla.client.admin.access import AclBinding, ResourceType
from ottla.client.admin.admin import Admin
from ottla.client.admin.operations import AclOperation
from ottla.testing.broker import KafkaBroker

SETTINGS = {
    **LISTENER,
    "ottla.admin.login": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "connection.failed.authentication.delay.ms": "1",
}
USERS = {"admin": "admin-secret", "reader": "reader-secret", "stranger": "stranger-secret", "writer": "writer-secret"}
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


def test_who_may_do_it_with_the_topic_may_do_it_with_the_registry():
    with KafkaBroker(SETTINGS, users=USERS) as broker:
        url = url_of(broker.info.http_parts)
        assert status(url + SUBJECT, body=SCHEMA) == 401
        assert status(url + SUBJECT, "admin", SCHEMA, password="wrong") == 401
        assert status(url + SUBJECT, "admin", SCHEMA) == 200
        rules = [
            AclBinding(ResourceType.TOPIC, "_schemas", f"User:{user}", operation)
            for user, operation in (("reader", AclOperation.READ), ("writer", AclOperation.WRITE))
        ]
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_acls(rules)
        assert [status(url + SUBJECT, user) for user in ("reader", "stranger")] == [200, 403]
        assert [status(url + SUBJECT, user, SCHEMA) for user in ("writer", "reader")] == [200, 403]
        level = json.dumps({"compatibility": "NONE"}).encode()
        assert [status(url + "/config", user, level, "PUT") for user in ("admin", "writer")] == [200, 403]
        deleted = [status(url + "/subjects/clicks-value", user, method="DELETE") for user in ("writer", "admin")]
        assert deleted == [403, 200]


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
            for user, topic in (("reader", "clicks"), ("reader", "_schemas"), ("writer", "clicks"))
        ]
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_acls(rules)
        assert (shown(broker, "reader")["text"], shown(broker, "reader")["schema"]["subject"]) == (
            '"a"',
            "clicks-value",
        )
        assert (shown(broker, "writer")["text"], "schema" in shown(broker, "writer")) == ("02 61", False)
