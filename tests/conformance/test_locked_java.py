"""Java's clients and Kafka's own tools through both locks: TLS and each kind of login, and the rules behind.

The matrix of test_locked_python.py for Java: a producer and a consumer, AclCommand, ConfigCommand for users, clients
and addresses, DelegationTokenCommand. Needs Java and Kafka's jars (kafka_jars.py): run by `make test-long`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conformance.java_programs import JavaPrograms, jars_or_skip
from tests.conformance.locked_broker import LOGINS, OTHERS, SUPER_USER, Access, LockedBroker, locked_broker
from tests.conformance.locked_java import ALLOWED_URLS, java_file, tokens_for_java
from tests.patience import HANG_S

from ottla.client.admin.access import AclFilter, ResourceType
from ottla.client.admin.credentials import ScramMechanism

pytestmark = pytest.mark.long

CONFIG_COMMAND = "kafka.admin.ConfigCommand"
RECORDS = 10
Tool = Callable[..., str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedBroker]:
    jars_or_skip("4.3")
    with locked_broker(tmp_path_factory.mktemp("locked")) as made:
        made.make_topics(["java"])
        yield made


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("java"))


def compiled(scratch: Path) -> Path:
    """The directory, with LockedClient as JavaPrograms expects it."""
    jars = jars_or_skip("4.3")
    source = Path(__file__).with_name("LockedClient.java")
    command = ["javac", "-nowarn", "-d", scratch / f"classes-{jars.name}", "-cp", f"{jars}/*", source]
    subprocess.run(command, check=True, timeout=HANG_S)
    return scratch


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    with tokens_for_java() as url:
        yield url


@pytest.fixture(params=LOGINS)
def login(request: pytest.FixtureRequest, provider: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-D{ALLOWED_URLS}={provider}")
    return str(request.param)


@pytest.fixture
def tool(broker: LockedBroker, login: str, provider: str, tmp_path: Path) -> Tool:
    """Runs a tool of Kafka as the super user, who gets in by this login."""
    access = broker.access(login, SUPER_USER)
    java = JavaPrograms(jars_or_skip("4.3"), tmp_path, access.servers)
    file = java_file(access, provider, tmp_path)
    return lambda name, words: java.tool(name, "--command-config", str(file), *words.split())


def test_a_user_writes_and_reads_its_own_topic_and_no_other(
    broker: LockedBroker, classes: Path, login: str, provider: str, tmp_path: Path
) -> None:
    check_java(broker.access(login), classes, java_file(broker.access(login), provider, tmp_path))


def check_java(access: Access, classes: Path, file: Path) -> None:
    java = JavaPrograms(jars_or_skip("4.3"), classes, access.servers)
    words = [access.topic("java"), OTHERS, access.group, str(RECORDS)]
    printed = java.run("LockedClient", str(file), *words).splitlines()
    read = [f"read: value {number}" for number in range(RECORDS)]
    assert printed == ["write: TopicAuthorizationException", *read, "read: TopicAuthorizationException"]


def test_acl_command_writes_rules_and_lists_them(broker: LockedBroker, login: str, tool: Tool) -> None:
    topic = f"rules-{login}"
    tool("AclCommand", f"--add --allow-principal User:bob --operation Read --topic {topic}")
    with broker.admin() as admin:
        rules = admin.describe_acls(AclFilter(ResourceType.TOPIC, topic))
    assert [str(rule) for rule in rules] == [f"User:bob may READ topic '{topic}' (literal) from *"]
    listed = tool("AclCommand", f"--list --topic {topic}")
    assert "(principal=User:bob, host=*, operation=READ, permissionType=ALLOW)" in listed
    tool("AclCommand", f"--remove --force --topic {topic}")
    with broker.admin() as admin:
        assert admin.describe_acls(AclFilter(ResourceType.TOPIC, topic)) == []


def test_config_command_changes_users_clients_and_addresses(broker: LockedBroker, login: str, tool: Tool) -> None:
    name, address = f"of-{login.lower()}", f"10.1.2.{LOGINS.index(login)}"
    secret = "SCRAM-SHA-512=[iterations=4096,password=pencil]"
    tool(CONFIG_COMMAND, f"--alter --entity-type users --entity-name {name} --add-config {secret}")
    rates = {
        f"--entity-type users --entity-name {name}": "producer_byte_rate=1024.0",
        f"--entity-type clients --entity-name {name}": "consumer_byte_rate=2048.0",
        f"--entity-type ips --entity-name {address}": "connection_creation_rate=7.0",
    }
    for entity, rate in rates.items():
        tool(CONFIG_COMMAND, f"--alter {entity} --add-config {rate}")
    described = tool(CONFIG_COMMAND, f"--describe --entity-type users --entity-name {name}")
    assert "producer_byte_rate=1024.0" in described
    assert "SCRAM-SHA-512=iterations=4096" in described
    with broker.admin() as admin:
        quotas = admin.describe_client_quotas()
        kinds = [each.mechanism for each in admin.describe_user_scram_credentials([name])[name]]
    assert kinds == [ScramMechanism.SCRAM_SHA_512]
    ours = {key: value for key, value in quotas.items() if name in str(key) or f"'{address}'" in str(key)}
    assert sorted(rate for each in ours.values() for rate in each.items()) == [
        ("connection_creation_rate", 7.0),
        ("consumer_byte_rate", 2048.0),
        ("producer_byte_rate", 1024.0),
    ]


def test_delegation_token_command_makes_a_token_and_ends_it(broker: LockedBroker, login: str, tool: Tool) -> None:
    made = tool("DelegationTokenCommand", "--create --max-life-time-period -1 --renewer-principal User:bob")
    row = re.search(rf"^(\S{{22}})\s+(\S{{88}})\s+User:{SUPER_USER}\s", made, re.MULTILINE)
    assert row is not None, made
    token_id, secret = row[1], row[2]
    assert token_id in tool("DelegationTokenCommand", f"--describe --owner-principal User:{SUPER_USER}")
    tool("DelegationTokenCommand", f"--expire --expiry-time-period -1 --hmac {secret}")
    with broker.admin() as admin:
        assert token_id not in {each.token_id for each in admin.describe_delegation_tokens()}
