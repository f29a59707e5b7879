"""What `ottla broker start --secure` makes is enough for Java: Kafka's own tools get in with client.properties as is.

Needs Java and Kafka's jars (kafka_jars.py): run by `make test-long`. Without Java, tests/client/test_secure_broker.py
does the same with our tools and confluent-kafka.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.test_secure_broker import SecureBroker, run
from tests.conformance.java_programs import jars_or_skip
from tests.conformance.kafka_broker import run_java

pytestmark = [pytest.mark.long, pytest.mark.skipif(shutil.which("java") is None, reason="needs Java 17")]
TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with SecureBroker(tmp_path_factory.mktemp("secure")) as made:
        yield made


@pytest.mark.parametrize("line", ["4.3", "3.9"])
def test_kafkas_tools_get_in_with_the_file_as_it_is(line: str, broker: SecureBroker) -> None:
    jars = jars_or_skip(line)
    where = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", str(broker.client_file))
    topic = f"from-java-{line}"
    run_java(jars, f"{TOOLS}.TopicCommand", *where, "--create", "--topic", topic)
    assert topic in run_java(jars, f"{TOOLS}.TopicCommand", *where, "--list").split()
    assert topic in run(broker, "topic list")[1].split()


def test_rules_of_kafkas_tool_and_ours_are_the_same(broker: SecureBroker) -> None:
    """--producer and --consumer of both write the same rules."""
    jars = jars_or_skip("4.3")
    where = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", str(broker.client_file))
    shorthands = {
        "--producer --topic t --transactional-id x --idempotent": "producer",
        "--consumer --topic t --group g": "consumer",
        "--producer --consumer --topic t --group g": "both",
    }
    for words, name in shorthands.items():
        run_java(jars, acl_command(jars), *where, "--add", "--allow-principal", f"User:java-{name}", *words.split())
        assert run(broker, f"acl add --allow ours-{name} {words}")[0] == 0
        assert rules_of(broker, f"java-{name}") == rules_of(broker, f"ours-{name}") != set()


def acl_command(jars: Path) -> str:
    return "org.apache.kafka.tools.AclCommand" if jars.name.startswith("4") else "kafka.admin.AclCommand"


def rules_of(broker: SecureBroker, user: str) -> set[tuple[str, ...]]:
    lines = run(broker, f"acl list --principal {user}")[1].splitlines()[1:]
    return {tuple(word for word in line.split() if not word.startswith("User:")) for line in lines}
