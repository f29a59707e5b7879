"""Access rules on the wire and by Kafka's own tool: Apache Kafka 4.3 and our broker answer alike.

Needs Java and Kafka's jars (kafka_jars.py): run by `make test-long`. Without Java, tests/unit/cluster/test_acls.py and
tests/client/test_acl_admins.py say the same in fewer words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.java_programs import JavaPrograms, jars_or_skip
from tests.conformance.kafka_broker import KafkaBroker
from tests.conformance.our_broker import BrokerProcess
from tests.conformance.transaction_probes import Wire

from ottla.protocol.access import AclOperation as Op
from ottla.protocol.access import AclPermission as Permission
from ottla.protocol.access import AclResource as Resource
from ottla.protocol.access import PatternType as Pattern
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest

pytestmark = pytest.mark.long

SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The addresses of Apache Kafka and of our broker, both with an authorizer."""
    jars, scratch = jars_or_skip("4.3"), tmp_path_factory.mktemp("rules")
    kafka = KafkaBroker(
        jars, scratch, scratch / "kafka", "".join(f"{name}={value}\n" for name, value in SECURED.items())
    )
    kafka.format()
    with kafka, BrokerProcess(scratch / "ours", SECURED) as ours:
        yield {"kafka": kafka.bootstrap, "ours": ours.bootstrap_servers}


# --- on the wire ------------------------------------------------------------------------------------------------------


def creation(**changed: Any) -> AclCreation:
    values: dict[str, Any] = {
        "resource_type": Resource.TOPIC,
        "resource_name": "wire",
        "resource_pattern_type": Pattern.LITERAL,
        "principal": "User:wire",
        "host": "*",
        "operation": Op.READ,
        "permission_type": Permission.ALLOW,
    }
    return AclCreation(**(values | changed))


def filter_fields(**changed: Any) -> dict[str, Any]:
    values = {
        "resource_type_filter": Resource.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": Pattern.ANY,
        "principal_filter": "User:wire",
        "host_filter": None,
        "operation": Op.ANY,
        "permission_type": Permission.ANY,
    }
    return values | changed


CREATIONS = [
    creation(),
    creation(),
    creation(resource_name=""),
    creation(resource_name="a/b", resource_type=Resource.GROUP),
    creation(resource_name="*"),
    creation(resource_name="*", resource_pattern_type=Pattern.PREFIXED),
    creation(resource_name="wi", resource_pattern_type=Pattern.PREFIXED, permission_type=Permission.DENY),
    creation(resource_type=Resource.CLUSTER, resource_name="kafka-cluster", operation=Op.ALTER),
    creation(resource_type=Resource.CLUSTER, resource_name="another"),
    creation(resource_type=Resource.TRANSACTIONAL_ID, operation=Op.TWO_PHASE_COMMIT),
    creation(resource_type=Resource.USER, resource_name="User:x", operation=Op.CREATE_TOKENS, host="10.0.0.1"),
    creation(resource_type=99),
    creation(resource_pattern_type=99),
    creation(operation=99),
    creation(permission_type=99),
    creation(operation=Op.CLUSTER_ACTION),
    creation(principal="wire"),
]
FILTERS = [
    filter_fields(),
    filter_fields(resource_name_filter="wire"),
    filter_fields(resource_name_filter="wire", pattern_type_filter=Pattern.MATCH),
    filter_fields(resource_name_filter="*", pattern_type_filter=Pattern.MATCH),
    filter_fields(resource_name_filter="wi", pattern_type_filter=Pattern.PREFIXED),
    filter_fields(
        resource_type_filter=Resource.TOPIC, resource_name_filter="wire", pattern_type_filter=Pattern.LITERAL
    ),
    filter_fields(resource_type_filter=Resource.USER),
    filter_fields(resource_type_filter=99),
    filter_fields(pattern_type_filter=99),
    filter_fields(operation=99),
    filter_fields(operation=Op.READ),
    filter_fields(permission_type=Permission.DENY),
    filter_fields(host_filter="10.0.0.1"),
    filter_fields(principal_filter="User:nobody"),
]


def described(wire: Wire, fields: dict[str, Any]) -> tuple[int, set[tuple[Any, ...]]]:
    answer = wire.ask(DescribeAclsRequest(**fields), 3)
    return answer.error_code, {
        (each.resource_type, each.pattern_type, each.resource_name, *rule(acl))
        for each in answer.resources
        for acl in each.acls
    }


def rule(acl: Any) -> tuple[Any, ...]:
    return acl.principal, acl.host, acl.operation, acl.permission_type


def conversation(address: str) -> dict[str, Any]:
    """What a broker says to all of the above, in order."""
    with Wire(address) as wire:
        created = [wire.ask(CreateAclsRequest(creations=[each]), 3).results[0].error_code for each in CREATIONS]
        together = [each.error_code for each in wire.ask(CreateAclsRequest(creations=CREATIONS), 2).results]
        found = [described(wire, each) for each in FILTERS]
        deletions = [DeleteAclsFilter(**each) for each in FILTERS[:0:-1]]
        gone = [
            (
                each.error_code,
                {(acl.resource_type, acl.pattern_type, acl.resource_name, *rule(acl)) for acl in each.matching_acls},
            )
            for each in wire.ask(DeleteAclsRequest(filters=deletions), 3).filter_results
        ]
        return {
            "created": created,
            "together": together,
            "found": found,
            "gone": gone,
            "left": described(wire, FILTERS[0]),
        }


def test_rules_are_created_described_and_deleted_as_by_kafka(servers: Mapping[str, str]) -> None:
    said = {side: conversation(address) for side, address in servers.items()}
    for part in said["kafka"]:
        assert said["ours"][part] == said["kafka"][part], part


# --- by the tool ------------------------------------------------------------------------------------------------------

COMMANDS = [
    "--add --allow-principal User:Bob --allow-principal User:Eve --producer --idempotent --topic orders",
    "--add --allow-principal User:Bob --consumer --topic orders --group app- --resource-pattern-type prefixed",
    "--add --deny-principal User:Mallory --deny-host 10.0.0.1 --operation All --topic *",
    "--add --allow-principal User:Bob --operation ClusterAction --cluster",
    "--add --allow-principal User:Bob --operation Describe --transactional-id x --delegation-token t",
    "--list",
    "--list --topic orders --resource-pattern-type match",
    "--list --principal User:Bob --group app-",
    "--remove --force --allow-principal User:Bob --producer --topic orders",
    "--remove --force --topic *",
    "--list",
]


def test_the_tool_prints_the_same(servers: Mapping[str, str], tmp_path: Path) -> None:
    tools = {side: JavaPrograms(jars_or_skip("4.3"), tmp_path, address) for side, address in servers.items()}
    for command in COMMANDS:
        printed = {side: sorted(tool.tool("AclCommand", *command.split()).split("\n")) for side, tool in tools.items()}
        assert printed["ours"] == printed["kafka"], command
        assert len(printed["kafka"]) > 1 or "--remove" in command, command
