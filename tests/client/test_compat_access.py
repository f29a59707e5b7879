"""The values and calls for access rules and SCRAM users of confluent-kafka and kafka-python, beside the originals."""

import contextlib

import confluent_kafka.admin as confluent
import kafka.admin as kafka_python
import pytest

from ottla.compat.confluent_kafka import KafkaException
from ottla.compat.confluent_kafka import admin as like_confluent
from ottla.compat.kafka import admin as like_kafka
from ottla.compat.kafka.errors import IllegalArgumentError, NoError
from ottla.testing import KafkaBroker

BOTH = [confluent, like_confluent]
RULE = ("topic", "clicks", "literal", "User:alice", "*", "read", "allow")


@contextlib.contextmanager
def confluent_admin(module, broker):
    """Theirs is gone when nobody holds it; ours is closed."""
    admin = module.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    yield admin
    if module is like_confluent:
        admin.__exit__()


@pytest.fixture(scope="module")
def with_rules():
    """A broker with access rules, where those who do not log in may change them."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    with KafkaBroker({"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"}) as broker:
        yield broker


# --- confluent-kafka -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", BOTH, ids=["theirs", "ours"])
def test_rules_of_confluent_kafka_have_these_attributes_and_compare(module):
    rule = module.AclBinding(*RULE)
    assert (rule.restype.name, rule.name, rule.resource_pattern_type.value) == ("TOPIC", "clicks", 3)
    assert (rule.principal, rule.host, rule.operation.name, rule.permission_type.name) == (
        "User:alice",
        "*",
        "READ",
        "ALLOW",
    )
    same = module.AclBinding(module.ResourceType.TOPIC, "clicks", 3, "User:alice", "*", module.AclOperation.READ, 3)
    other = module.AclBinding("topic", "clocks", "literal", "User:alice", "*", "read", "allow")
    assert (rule == same, hash(rule) == hash(same), rule < other, rule == other) == (True, True, True, False)
    for wrong in (("any", *RULE[1:]), ("topic", None, *RULE[2:]), (*RULE[:2], "match", *RULE[3:])):
        with pytest.raises(ValueError, match=r"."):
            module.AclBinding(*wrong)
    with pytest.raises(TypeError):
        module.AclBinding("topic", 7, *RULE[2:])
    every = module.AclBindingFilter("any", None, "any", None, None, "any", "any")
    assert every.name is None
    with pytest.raises(ValueError, match="UNKNOWN"):
        module.AclBindingFilter("unknown", None, "any", None, None, "any", "any")


def test_the_printed_form_is_theirs():
    assert repr(like_confluent.AclBinding(*RULE)) == repr(confluent.AclBinding(*RULE))


@pytest.mark.parametrize("module", BOTH, ids=["theirs", "ours"])
def test_rules_of_confluent_kafka_are_created_found_and_deleted(module, with_rules):
    with confluent_admin(module, with_rules) as admin:
        check_rules(admin, module)


def check_rules(admin, module):
    rule = module.AclBinding(*RULE)
    cluster = module.AclBinding("broker", "kafka-cluster", "literal", "User:alice", "*", "alter", "allow")
    assert [each.result() for each in admin.create_acls([rule, cluster]).values()] == [None, None]
    every = module.AclBindingFilter("any", None, "any", "User:alice", None, "any", "any")
    assert sorted(admin.describe_acls(every).result()) == sorted([rule, cluster])
    nobody = module.AclBindingFilter("any", None, "any", "User:nobody", None, "any", "any")
    deleted = admin.delete_acls([every, nobody])
    assert sorted(deleted[every].result()) == sorted([rule, cluster])
    assert deleted[nobody].result() == []
    with pytest.raises(ValueError, match="Expected list of"):
        admin.create_acls(["rule"])


@pytest.mark.parametrize("module", BOTH, ids=["theirs", "ours"])
def test_passwords_of_confluent_kafka_are_set_told_and_taken_away(module, kafka_broker_fresh):
    with confluent_admin(module, kafka_broker_fresh) as admin:
        check_passwords(admin, module)


def check_passwords(admin, module):
    info = module.ScramCredentialInfo(module.ScramMechanism.SCRAM_SHA_256, 8192)
    changes = [module.UserScramCredentialUpsertion("alice", info, b"secret")]
    assert admin.alter_user_scram_credentials(changes)["alice"].result() is None
    (described,) = admin.describe_user_scram_credentials().result().values()
    assert described.user == "alice"
    assert [(each.mechanism.name, each.iterations) for each in described.scram_credential_infos] == [
        ("SCRAM_SHA_256", 8192)
    ]
    futures = admin.describe_user_scram_credentials(["alice", "nobody"])
    assert futures["alice"].result().user == "alice"
    with pytest.raises((confluent.KafkaException, KafkaException)) as failure:
        futures["nobody"].result()
    assert failure.value.args[0].name() == "RESOURCE_NOT_FOUND"
    deletion = module.UserScramCredentialDeletion("alice", module.ScramMechanism.SCRAM_SHA_256)
    assert admin.alter_user_scram_credentials([deletion])["alice"].result() is None
    assert admin.describe_user_scram_credentials().result() == {}


# --- kafka-python ----------------------------------------------------------------------------------------------------


def rule_of(module, **changes):
    pattern = module.ResourcePattern(module.ResourceType.TOPIC, "clicks")
    arguments = {
        "principal": "User:alice",
        "host": "*",
        "operation": module.ACLOperation.READ,
        "permission_type": module.ACLPermissionType.ALLOW,
        "resource_pattern": pattern,
    }
    return module.ACL(**{**arguments, **changes})


def test_rules_of_kafka_python_look_and_compare_as_there():
    assert repr(rule_of(like_kafka)) == repr(rule_of(kafka_python))
    assert rule_of(like_kafka) == rule_of(like_kafka) != rule_of(like_kafka, host="10.0.0.7")
    assert len({rule_of(like_kafka), rule_of(like_kafka)}) == 1
    with pytest.raises(IllegalArgumentError, match="operation cannot be ANY"):
        rule_of(like_kafka, operation=like_kafka.ACLOperation.ANY)
    with pytest.raises(IllegalArgumentError, match="pattern_type cannot be MATCH"):
        like_kafka.ResourcePattern(like_kafka.ResourceType.TOPIC, "x", like_kafka.ACLResourcePatternType.MATCH)


@pytest.mark.parametrize("module", [kafka_python, like_kafka], ids=["theirs", "ours"])
def test_rules_of_kafka_python_are_created_found_and_deleted(module, with_rules):
    admin = module.KafkaAdminClient(bootstrap_servers=with_rules.bootstrap_servers)
    rule = rule_of(module)
    assert admin.create_acls([rule]) == {"succeeded": [rule], "failed": []}
    pattern = module.ResourcePatternFilter(module.ResourceType.TOPIC, "clicks", module.ACLResourcePatternType.ANY)
    wanted = module.ACLFilter(None, None, module.ACLOperation.ANY, module.ACLPermissionType.ANY, pattern)
    found, error = admin.describe_acls(wanted)
    assert (found, error.__name__, error.errno) == ([rule], "NoError", 0)
    ((asked, deleted, error),) = admin.delete_acls([wanted])
    assert (asked, deleted, error.__name__) == (wanted, [rule], "NoError")
    admin.close()


@pytest.mark.parametrize("module", [kafka_python, like_kafka], ids=["theirs", "ours"])
def test_passwords_of_kafka_python_are_set_told_and_taken_away(module, kafka_broker_fresh):
    admin = module.KafkaAdminClient(bootstrap_servers=kafka_broker_fresh.bootstrap_servers)
    upsertion = module.UserScramCredentialUpsertion("alice", "SCRAM-SHA-512", "secret")
    assert "secret" not in repr(upsertion)
    assert admin.alter_user_scram_credentials([upsertion]) == {"alice": None}
    assert admin.describe_user_scram_credentials() == {
        "alice": {"error": None, "credential_infos": [{"mechanism": 2, "iterations": 4096}]}
    }
    told = admin.describe_user_scram_credentials(["alice", "nobody"])
    assert (told["alice"]["error"], told["nobody"]["credential_infos"]) == (None, [])
    assert "nobody" in told["nobody"]["error"]
    deletion = module.UserScramCredentialDeletion("alice", 2)
    assert admin.alter_user_scram_credentials([deletion]) == {"alice": None}
    assert admin.alter_user_scram_credentials([deletion])["alice"]
    admin.close()


def test_no_error_is_a_class_with_number_zero():
    assert NoError.errno == 0
