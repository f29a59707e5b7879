"""The rules of access against a model that searches all of them, and Kafka's words one by one."""

from __future__ import annotations

from random import Random

import pytest

from ottla.broker.requests.context import RequestContext
from ottla.broker.security.authorizer import Authorizer
from ottla.broker.security.rules import DEFAULT_DENY, SUPER_USER, Asker, Rules
from ottla.cluster.changes import CreateAcl, RemoveAcl, apply, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import AclBinding, AclEntry, AclPattern
from ottla.protocol.access import AclOperation as Op
from ottla.protocol.access import AclPermission as Permission
from ottla.protocol.access import AclResource as Resource
from ottla.protocol.access import PatternType as Pattern

ALICE, BOB, ROOT = "User:alice", "User:bob", "User:root"
HERE, THERE = "10.0.0.1", "10.0.0.2"
NAMES = ["a", "ab", "abc", "b", "hard", "hardcode", "*", "kafka-cluster"]
OPERATIONS = [each for each in Op if each not in (Op.UNKNOWN, Op.ANY)]


def rule(
    name: str,
    operation: Op,
    permission: Permission = Permission.ALLOW,
    *,
    principal: str = ALICE,
    host: str = "*",
    pattern: Pattern = Pattern.LITERAL,
    resource: Resource = Resource.TOPIC,
) -> AclBinding:
    return AclBinding(AclPattern(resource, pattern, name), AclEntry(principal, host, operation, permission))


def rules_of(*bindings: AclBinding, allow_everyone: bool = False) -> Rules:
    rules = Rules(super_users=[ROOT], allow_everyone=allow_everyone)
    rules.replace(apply_all(ClusterImage("c"), map(CreateAcl, bindings)).acls)
    return rules


def allows(rules: Rules, operation: Op, name: str, *, principal: str = ALICE, host: str = HERE) -> bool:
    asker = Asker.of(principal, host)
    return rules.decide(principal, asker, operation, Resource.TOPIC, name).is_allowed


# --- a model in thirty lines: every rule is looked at, nothing is kept ------------------------------------------------


def is_about(binding: AclBinding, resource: Resource, name: str) -> bool:
    pattern = binding.pattern
    if pattern.resource_type != resource:
        return False
    return name.startswith(pattern.name) if pattern.pattern_type == Pattern.PREFIXED else pattern.name in (name, "*")


def is_for(binding: AclBinding, principal: str, host: str) -> bool:
    return binding.entry.principal in (principal, "User:*") and binding.entry.host in (host, "*")


def covers(entry: AclEntry, operation: Op) -> bool:
    if entry.operation in (Op.ALL, operation):
        return True
    return entry.permission == Permission.ALLOW and (
        (operation == Op.DESCRIBE and entry.operation in (Op.READ, Op.WRITE, Op.DELETE, Op.ALTER))
        or (operation == Op.DESCRIBE_CONFIGS and entry.operation == Op.ALTER_CONFIGS)
    )


def model_allows(bindings, everyone, principal, host, operation, resource, name) -> bool:
    about = [each for each in bindings if is_about(each, resource, name)]
    if principal == ROOT or not about:
        return principal == ROOT or everyone
    said = {each.entry.permission for each in about if is_for(each, principal, host) and covers(each.entry, operation)}
    return said == {Permission.ALLOW}


def model_allows_any(bindings, everyone, principal, host, operation, resource) -> bool:
    if model_allows(bindings, everyone, principal, host, operation, resource, "hardcode"):
        return True
    mine = [
        each
        for each in bindings
        if is_for(each, principal, host)
        and each.pattern.resource_type == resource
        and each.entry.operation in (Op.ALL, operation)
    ]
    denied = {each.pattern[1:] for each in mine if each.entry.permission == Permission.DENY}
    allowed = {each.pattern[1:] for each in mine if each.entry.permission == Permission.ALLOW}
    if (Pattern.LITERAL, "*") in denied | allowed:
        return (Pattern.LITERAL, "*") not in denied
    prefixes = [name for pattern, name in denied if pattern == Pattern.PREFIXED]
    return any(
        not any(name.startswith(prefix) for prefix in prefixes)
        and (pattern == Pattern.PREFIXED or (pattern, name) not in denied)
        for pattern, name in allowed
    )


def drawn_rule(random: Random) -> AclBinding:
    return rule(
        random.choice(NAMES),
        random.choice(OPERATIONS),
        random.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
        principal=random.choice((ALICE, BOB, "User:*", "Group:alice")),
        host=random.choice(("*", "*", HERE, THERE)),
        pattern=random.choice((Pattern.LITERAL, Pattern.PREFIXED)),
        resource=random.choice((Resource.TOPIC, Resource.TOPIC, Resource.GROUP)),
    )


def compare_with_model(seed: int, rounds: int) -> None:
    """Every round changes the rules a little and asks a question about them."""
    random = Random(seed)
    everyone = random.random() < 0.3
    rules, bindings = Rules(super_users=[ROOT], allow_everyone=everyone), set[AclBinding]()
    image = ClusterImage("c")
    access = Authorizer(Rules(super_users=[ROOT], allow_everyone=everyone), decision_limit=40)
    for _ in range(rounds):
        if random.random() < 0.1:
            image, bindings = ClusterImage("c"), set()
        for each in {drawn_rule(random) for _ in range(random.randrange(4))}:
            image = apply(image, RemoveAcl(each) if each in bindings else CreateAcl(each))
            bindings ^= {each}
        rules.replace(image.acls)
        principal, host = random.choice((ALICE, BOB, ROOT, "User:*")), random.choice((HERE, THERE))
        operation, resource = random.choice(OPERATIONS), random.choice((Resource.TOPIC, Resource.GROUP))
        name, asker = random.choice(NAMES), Asker.of(principal, host)
        verdict = rules.decide(principal, asker, operation, resource, name)
        question = principal, host, operation, resource
        assert verdict.is_allowed == model_allows(bindings, everyone, *question, name), (bindings, question, name)
        context = RequestContext(0, "", host, principal=principal)
        access.update(image)
        for each in NAMES:
            assert access.allows(context, operation, resource, each) == model_allows(
                bindings, everyone, *question, each
            )
        any_allowed = rules.allows_any(principal, asker, operation, resource)
        assert any_allowed == model_allows_any(bindings, everyone, *question), (bindings, question)


@pytest.mark.parametrize("seed", range(30))
def test_decisions_are_those_of_the_model(seed: int) -> None:
    compare_with_model(seed, 100)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 2_000))
def test_a_hundred_thousand_decisions_are_those_of_the_model(seed: int) -> None:
    compare_with_model(seed, 100)


# --- one thing at a time ----------------------------------------------------------------------------------------------


def test_without_a_rule_nothing_is_allowed() -> None:
    assert not allows(rules_of(), Op.READ, "a")
    assert rules_of().decide(ALICE, Asker.of(ALICE, HERE), Op.READ, Resource.TOPIC, "a") == (False, DEFAULT_DENY)


def test_one_denial_is_enough() -> None:
    everything = [rule("*", Op.ALL), rule("a", Op.READ), rule("a", Op.ALL, pattern=Pattern.PREFIXED)]
    assert allows(rules_of(*everything), Op.READ, "ab")
    for denial in (
        rule("ab", Op.READ, Permission.DENY),
        rule("*", Op.ALL, Permission.DENY, principal="User:*"),
        rule("a", Op.READ, Permission.DENY, pattern=Pattern.PREFIXED, host=HERE),
    ):
        assert not allows(rules_of(*everything, denial), Op.READ, "ab")


def test_super_users_pass_every_denial() -> None:
    rules = rules_of(rule("*", Op.ALL, Permission.DENY, principal="User:*"))
    assert rules.decide(ROOT, Asker.of(ROOT, HERE), Op.ALTER, Resource.TOPIC, "a") == (True, SUPER_USER)
    assert rules.allows_any(ROOT, Asker.of(ROOT, HERE), Op.ALTER, Resource.TOPIC)


def test_everyone_may_only_where_no_rule_speaks_of_the_resource() -> None:
    rules = rules_of(rule("a", Op.READ, principal=BOB), allow_everyone=True)
    assert allows(rules, Op.READ, "b")
    assert not allows(rules, Op.READ, "a")
    assert allows(rules, Op.READ, "a", principal=BOB)


def test_a_denial_implies_nothing() -> None:
    rules = rules_of(rule("a", Op.READ, Permission.DENY), rule("a", Op.DESCRIBE))
    assert allows(rules, Op.DESCRIBE, "a")
    assert not allows(rules, Op.READ, "a")


@pytest.mark.parametrize("host", ["::1", "0:0:0:0:0:0:0:1"])
def test_a_rule_names_an_address_as_java_or_anybody_writes_it(host: str) -> None:
    rules = rules_of(rule("a", Op.READ, host=host))
    assert allows(rules, Op.READ, "a", host="::1")
    assert not allows(rules, Op.READ, "a", host="::2")


def test_an_old_address_in_a_new_one_is_the_old_one() -> None:
    assert allows(rules_of(rule("a", Op.READ, host=HERE)), Op.READ, "a", host=f"::ffff:{HERE}")


def test_what_is_looked_up_is_forgotten_with_the_rules() -> None:
    rules = rules_of(rule("a", Op.READ, pattern=Pattern.PREFIXED), rule("b", Op.READ, principal=BOB))
    assert rules.replace(ClusterImage("c").acls)
    assert not rules.replace(ClusterImage("c").acls)
    assert not rules._patterns
    assert not any(rules._names.values())
    assert not any(rules._prefix_lengths.values())
