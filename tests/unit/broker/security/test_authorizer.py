"""The authorizer: what it remembers, what it forgets, what it writes into the audit log."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from ottla.broker.observe.log_levels import LogLevels, set_levels
from ottla.broker.observe.log_lines import Repeats
from ottla.broker.requests.context import RequestContext
from ottla.broker.security.access import OpenAccess, make_access
from ottla.broker.security.authorizer import Authorizer
from ottla.broker.security.operations import ALL_OPERATIONS, bits
from ottla.broker.security.rules import Rules
from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.access import AUTHORIZERS
from ottla.broker.settings.without_effect import warnings
from ottla.cluster.changes import Change, CreateAcl, RemoveAcl, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.loggers import LogLevel
from ottla.cluster.model import AclBinding, AclEntry, AclPattern
from ottla.errors import InvalidSetting
from ottla.protocol.access import AclOperation as Op
from ottla.protocol.access import AclPermission as Permission
from ottla.protocol.access import AclResource as Resource
from ottla.protocol.access import PatternType as Pattern

ALICE = RequestContext(9, "app", "10.0.0.1", principal="User:alice", api_name="Produce")
LOG = "kafka.authorizer.logger"


def binding(
    name: str, operation: Op, permission: Permission = Permission.ALLOW, resource: Resource = Resource.TOPIC
) -> AclBinding:
    return AclBinding(AclPattern(resource, Pattern.LITERAL, name), AclEntry("User:alice", "*", operation, permission))


WRITE_A = binding("a", Op.WRITE)


class Changing:
    """An authorizer with an image that changes."""

    def __init__(self, *bindings: AclBinding, decision_limit: int = 100) -> None:
        self.access = Authorizer(Rules(super_users=["User:root"]), decision_limit=decision_limit)
        self.image = ClusterImage("c")
        self.change(*map(CreateAcl, bindings))

    def change(self, *changes: Change) -> None:
        self.image = apply_all(self.image, changes)
        self.access.update(self.image)

    def writes(self, name: str = "a") -> bool:
        return self.access.allows(ALICE, Op.WRITE, Resource.TOPIC, name)


def test_a_rule_acts_from_the_moment_it_is_there_until_it_is_gone() -> None:
    changing = Changing()
    assert not changing.writes()
    changing.change(CreateAcl(WRITE_A))
    assert changing.writes()
    changing.change(CreateAcl(binding("a", Op.ALL, Permission.DENY)))
    assert not changing.writes()
    changing.change(RemoveAcl(binding("a", Op.ALL, Permission.DENY)))
    assert changing.writes()
    changing.change(RemoveAcl(WRITE_A))
    assert not changing.writes()


def test_any_topic_is_decided_anew_with_other_rules() -> None:
    changing = Changing()
    assert not changing.access.allows_any(ALICE, Op.WRITE, Resource.TOPIC)
    changing.change(CreateAcl(WRITE_A))
    assert changing.access.allows_any(ALICE, Op.WRITE, Resource.TOPIC)


def test_other_changes_of_the_image_leave_decisions_alone() -> None:
    changing = Changing(WRITE_A)
    assert changing.writes()
    known = changing.access._remembered[("User:alice", "10.0.0.1", Op.WRITE, Resource.TOPIC)]
    changing.change(CreateAcl(WRITE_A))  # it was there before
    assert changing.access._remembered[("User:alice", "10.0.0.1", Op.WRITE, Resource.TOPIC)] is known


def test_what_is_remembered_has_a_bound() -> None:
    changing = Changing(WRITE_A, decision_limit=10)
    for number in range(1_000):
        changing.writes(f"a{number}")
        context = replace(ALICE, client_host=f"10.0.1.{number}")
        assert not changing.access.allows_any(context, Op.READ, Resource.TOPIC)
        decisions = changing.access._remembered
        assert len(decisions) + sum(map(len, decisions.values())) <= 10
    assert changing.writes()


def test_allowed_names_are_those_that_are_allowed() -> None:
    access = Changing(WRITE_A).access
    assert access.allowed(ALICE, Op.WRITE, Resource.TOPIC, iter(["a", "b", "a"])) == {"a"}


def test_operations_are_told_as_bits() -> None:
    access = Changing(binding("a", Op.ALTER), binding("kafka-cluster", Op.ALL, resource=Resource.CLUSTER)).access
    assert access.operations(ALICE, Resource.TOPIC, "a") == bits(Op.ALTER, Op.DESCRIBE)
    assert access.operations(ALICE, Resource.CLUSTER) == ALL_OPERATIONS[Resource.CLUSTER]
    assert access.operations(ALICE, Resource.GROUP, "g") == 0


# --- the audit log ----------------------------------------------------------------------------------------------------


def test_a_denial_is_one_line_at_info_whether_it_is_remembered_or_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOG)
    changing = Changing(binding("a", Op.WRITE, Permission.DENY))
    changing.writes("b")
    changing.writes("b")
    changing.writes("a")
    assert [record.levelname for record in caplog.records] == ["INFO"] * 3
    assert caplog.messages[0] == caplog.messages[1]
    assert caplog.messages[1] == (
        "Principal = User:alice is Denied operation = WRITE from host = 10.0.0.1 on resource = Topic:LITERAL:b "
        "for request = Produce with resourceRefCount = 1 based on rule DefaultDeny"
    )
    assert caplog.messages[2].endswith(
        "based on rule MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=a, patternType=LITERAL, "
        "principal=User:alice, host=*, operation=WRITE, permissionType=DENY))"
    )


def test_what_is_allowed_is_written_at_debug_as_soon_as_the_level_says_so(caplog: pytest.LogCaptureFixture) -> None:
    changing = Changing(WRITE_A)
    caplog.set_level(logging.INFO, LOG)
    assert changing.writes()
    assert not caplog.records
    caplog.set_level(logging.DEBUG, LOG)
    assert changing.writes()
    assert [record.levelname for record in caplog.records] == ["DEBUG"]
    assert "is Allowed operation = WRITE" in caplog.messages[0]


def test_filters_and_told_operations_are_no_attempts(caplog: pytest.LogCaptureFixture) -> None:
    access = Changing(WRITE_A).access
    caplog.set_level(logging.DEBUG, LOG)
    access.operations(ALICE, Resource.TOPIC, "b")
    access.allowed(ALICE, Op.WRITE, Resource.TOPIC, ["a", "b"], is_filter=True)
    assert not caplog.records
    caplog.set_level(5, LOG)
    access.allowed(ALICE, Op.WRITE, Resource.TOPIC, ["a", "b"], is_filter=True)
    assert [record.levelno for record in caplog.records] == [5, 5]


def test_of_a_request_that_names_thousands_the_first_hundred_are_written(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOG)
    access = Changing(WRITE_A).access
    names = [f"b{number}" for number in range(1_000)]
    assert access.allowed(ALICE, Op.WRITE, Resource.TOPIC, [*names, "a"]) == {"a"}
    lines = [record.getMessage() for record in caplog.records if record.name == LOG]  # a slow machine says so, too
    assert len(lines) == 101
    assert "Topic:LITERAL:b99 " in lines[-2]
    assert "is Denied operation = WRITE from host = 10.0.0.1 on 900 more resources = Topic" in lines[-1]


def test_lines_of_the_audit_log_are_never_held_back() -> None:
    repeats = Repeats(lambda: 0.0, limit=3)
    record = logging.LogRecord(LOG, logging.INFO, "", 0, "the same words", None, None)
    assert all(repeats.filter(record) for _ in range(10))
    assert record.getMessage() == "the same words"


def test_its_level_is_told_and_changed_as_of_other_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOG)  # and set back after the test
    set_levels([LogLevel(LOG, "INFO")])
    assert LogLevels()[LOG] == "INFO"
    assert Changing(WRITE_A).writes()
    assert not caplog.records
    set_levels([LogLevel(LOG, "DEBUG")])
    assert Changing(WRITE_A).writes()
    assert "is Allowed" in caplog.text
    set_levels([LogLevel(LOG, "OFF")])
    assert not Changing().writes()
    assert "is Denied" not in caplog.text


def test_a_name_cannot_begin_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOG)
    Changing().writes("b\nPrincipal = User:eve is Allowed")
    assert "\n" not in caplog.messages[0]
    assert "b\\nPrincipal" in caplog.messages[0]


# --- settings ---------------------------------------------------------------------------------------------------------


def settings(**given: str) -> BrokerSettings:
    return BrokerSettings({"log.dirs": "/d", **{name.replace("_", "."): value for name, value in given.items()}})


@pytest.mark.parametrize("name", AUTHORIZERS)
def test_kafkas_names_mean_our_authorizer(name: str) -> None:
    secured = settings(authorizer_class_name=name, super_users="User:root; User:CN=a,O=b")
    assert not warnings(secured)
    access = make_access(secured)
    assert access.is_on
    root = RequestContext(0, "", "h", principal="User:CN=a,O=b")
    assert access.allows(root, Op.ALTER, Resource.CLUSTER)
    assert not access.allows(ALICE, Op.ALTER, Resource.CLUSTER)


def test_everyone_may_what_no_rule_speaks_of_where_that_is_set() -> None:
    access = make_access(settings(authorizer_class_name=AUTHORIZERS[0], **{"allow.everyone.if.no.acl.found": "true"}))
    assert access.allows(ALICE, Op.ALTER, Resource.CLUSTER)


def test_without_an_authorizer_access_is_open() -> None:
    assert isinstance(make_access(settings()), OpenAccess)


def test_other_authorizers_are_refused_with_the_names_that_are_known() -> None:
    with pytest.raises(InvalidSetting, match=r"loads no classes; kafka\.security\.authorizer\.AclAuthorizer"):
        settings(authorizer_class_name="com.example.OpaAuthorizer")


def test_super_users_need_a_type_and_an_authorizer() -> None:
    with pytest.raises(InvalidSetting, match="as in User:root"):
        settings(authorizer_class_name=AUTHORIZERS[0], super_users="root")
    with pytest.raises(InvalidSetting, match=r"set authorizer\.class\.name"):
        settings(super_users="User:root")
