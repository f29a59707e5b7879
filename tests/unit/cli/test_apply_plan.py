"""What `ottla apply` decides: for any file and any cluster, by a model of a cluster to which the changes are made."""

import re

from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.apply.plan import is_pruned, plan, same_value
from ottla.cli.apply.values import (
    HIDDEN,
    AddRule,
    CreateTopic,
    Current,
    DeletePassword,
    DeleteTopic,
    Desired,
    GrowTopic,
    PresentTopic,
    RemoveRule,
    SecretSource,
    SetConfig,
    SetPassword,
    SetQuota,
    WantedTopic,
    WantedUser,
    deletes,
)
from ottla.cli.apply.words import json_of, line_of, summary
from ottla.client.admin.access import AclBinding, AclPermission, ResourceType
from ottla.client.admin.configs import ConfigResource, ConfigResourceType
from ottla.client.admin.credentials import ScramMechanism
from ottla.client.admin.operations import AclOperation
from ottla.light_dataclasses import replace

NAMES = st.sampled_from(["a", "b", "c", "_schemas"])
SETTINGS = st.dictionaries(st.sampled_from(["retention.ms", "cleanup.policy"]), st.sampled_from(["1", "2", "compact"]))
SOME_MECHANISMS = [
    (ScramMechanism.SCRAM_SHA_256,),
    (ScramMechanism.SCRAM_SHA_512,),
    (ScramMechanism.SCRAM_SHA_512, ScramMechanism.SCRAM_SHA_256),
]
SECRET = SecretSource("env", "PASSWORD")
RESOURCES = st.sampled_from(
    [ConfigResource(ConfigResourceType.BROKER, ""), ConfigResource(ConfigResourceType.GROUP, "billing")]
)
RULES = st.builds(
    AclBinding,
    st.just(ResourceType.TOPIC),
    NAMES,
    st.sampled_from(["User:alice", "User:bob"]),
    st.sampled_from([AclOperation.READ, AclOperation.WRITE]),
    st.sampled_from([AclPermission.ALLOW, AclPermission.DENY]),
)
ENTITIES = st.sampled_from([(("user", "alice"),), (("client-id", None),), (("client-id", "x"), ("user", None))])
LIMITS = st.dictionaries(st.sampled_from(["producer_byte_rate", "consumer_byte_rate"]), st.sampled_from([1.0, 2.5]))
SOME_LIMITS = [{"producer_byte_rate": 1.0}, {"consumer_byte_rate": 2.5}, {"producer_byte_rate": 2.5, "other": 1.0}]
SOME_PASSWORDS = [
    {ScramMechanism.SCRAM_SHA_256: 4096},
    {ScramMechanism.SCRAM_SHA_512: 8192},
    {ScramMechanism.SCRAM_SHA_256: 8192, ScramMechanism.SCRAM_SHA_512: 4096},
]
NUMBERS = st.none() | st.integers(1, 4)

DESIRED = st.builds(
    Desired,
    topics=st.none() | st.dictionaries(NAMES, st.builds(WantedTopic, NUMBERS, st.none(), SETTINGS)),
    settings=st.none()
    | st.dictionaries(RESOURCES, st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", SECRET]))),
    users=st.none()
    | st.dictionaries(
        NAMES,
        st.builds(
            WantedUser,
            st.just(SECRET),
            st.sampled_from(SOME_MECHANISMS),
            st.none() | st.just(4096),
        ),
    ),
    rules=st.none() | st.frozensets(RULES, max_size=5),
    quotas=st.none() | st.dictionaries(ENTITIES, LIMITS),
)
PRESENT = st.builds(PresentTopic, st.integers(1, 4), st.just(frozenset({1})), SETTINGS, st.just(False))
CURRENT = st.builds(
    Current,
    topics=st.dictionaries(NAMES, PRESENT).map(
        lambda topics: {**topics, "__consumer_offsets": PresentTopic(50, frozenset({1}), {}, True)}
    ),
    settings=st.dictionaries(
        RESOURCES, st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2", HIDDEN]))
    ),
    users=st.dictionaries(NAMES, st.sampled_from(SOME_PASSWORDS)),
    rules=st.frozensets(RULES, max_size=5),
    quotas=st.dictionaries(ENTITIES, st.sampled_from(SOME_LIMITS)),
)


# --- a cluster as a model --------------------------------------------------------------------------------------------


def made(current, change):
    """The state after one change."""
    match change:
        case CreateTopic(name, topic):
            there = PresentTopic(topic.partitions or 1, frozenset({topic.replication or 1}), topic.settings)
            return replace(current, topics={**current.topics, name: there})
        case GrowTopic(name, _, after):
            return replace(current, topics={**current.topics, name: current.topics[name]._replace(partitions=after)})
        case SetConfig(ConfigResource(ConfigResourceType.TOPIC, topic), name, _, after):
            settings = edited(current.topics[topic].settings, name, after)
            return replace(current, topics={**current.topics, topic: current.topics[topic]._replace(settings=settings)})
        case SetConfig(resource, name, _, after):
            value = HIDDEN if isinstance(after, SecretSource) else after
            settings = edited(current.settings.get(resource, {}), name, value)
            return replace(current, settings={**current.settings, resource: settings})
        case SetPassword(user, mechanism, iterations):
            infos = {**current.users.get(user, {}), mechanism: iterations or 16_384}
            return replace(current, users={**current.users, user: infos})
        case DeletePassword(user, mechanism):
            infos = edited(current.users[user], mechanism, None)
            return replace(current, users=edited(current.users, user, infos or None))
        case AddRule(rule):
            return replace(current, rules=current.rules | {rule})
        case RemoveRule(rule):
            return replace(current, rules=current.rules - {rule})
        case SetQuota(entity, name, _, after):
            limits = edited(current.quotas.get(entity, {}), name, after)
            return replace(current, quotas=edited(current.quotas, entity, limits or None))
        case DeleteTopic(name):
            return replace(current, topics=edited(current.topics, name, None))


def edited(mapping, name, value):
    rest = {key: each for key, each in mapping.items() if key != name}
    return rest if value is None else {**rest, name: value}


def all_made(current, changes):
    for change in changes:
        current = made(current, change)
    return current


# --- promises --------------------------------------------------------------------------------------------------------


@given(DESIRED, CURRENT, st.booleans())
def test_after_all_changes_nothing_is_left_to_do(desired, current, prune):
    planned = plan(desired, current, prune=prune)
    if not planned.refused:
        assert plan(desired, all_made(current, planned.changes), prune=prune).changes == ()


@given(DESIRED, CURRENT, st.booleans())
def test_nothing_goes_away_without_prune(desired, current, renew_secrets):
    planned = plan(desired, current, renew_secrets=renew_secrets)
    assert not [each for each in planned.changes if deletes(each)]


@given(DESIRED, CURRENT)
def test_prune_leaves_topics_of_the_cluster_and_of_tools_alone(desired, current):
    gone = {each.name for each in plan(desired, current, prune=True).changes if isinstance(each, DeleteTopic)}
    assert not gone & {"__consumer_offsets", "_schemas"}
    assert all(is_pruned(name, current.topics[name]) for name in gone)


@given(CURRENT)
def test_a_section_that_the_file_does_not_have_is_not_touched(current):
    assert plan(Desired(), current, prune=True, renew_secrets=True).changes == ()


@given(CURRENT)
def test_pruned_by_empty_sections_only_what_is_protected_is_left(current):
    desired = Desired(topics={}, users={}, rules=frozenset(), quotas={})
    after = all_made(current, plan(desired, current, prune=True).changes)
    assert (after.users, after.rules, after.quotas) == ({}, frozenset(), {})
    assert all(name.startswith("_") for name in after.topics)


@given(st.frozensets(RULES), st.frozensets(RULES))
def test_in_between_nobody_may_do_more_than_before_and_after(wanted, there):
    current = Current(rules=there)
    after = permitted(wanted)
    for change in plan(Desired(rules=wanted), current, prune=True).changes:
        current = made(current, change)
        assert permitted(current.rules) <= permitted(there) | after
    assert permitted(current.rules) == after


def permitted(rules):
    def what(permission):
        return {(each.principal, each.resource_name, each.operation) for each in rules if each.permission is permission}

    return what(AclPermission.ALLOW) - what(AclPermission.DENY)


@given(DESIRED, CURRENT)
def test_every_change_has_a_line_and_an_object(desired, current):
    planned = plan(desired, current, prune=True, renew_secrets=True)
    for each in planned.changes:
        assert re.match(r"[-+~] (topic|every broker|group|user|quota of|rule)", line_of(each))
        assert json_of(each)["action"] in ("create", "change", "delete")
    assert summary(planned).startswith(f"{len(planned.changes)} change" if planned.changes else "nothing")


# --- cases -----------------------------------------------------------------------------------------------------------


def test_partitions_grow_and_do_not_shrink():
    current = Current(topics={"clicks": PresentTopic(3, frozenset({1}))})
    assert plan(Desired(topics={"clicks": WantedTopic(6)}), current).changes == (GrowTopic("clicks", 3, 6),)
    (sentence,) = plan(Desired(topics={"clicks": WantedTopic(2)}), current).refused
    assert sentence.startswith("topic clicks has 3 partitions and the file wants 2: partitions cannot be taken away")


def test_another_number_of_copies_is_for_reassign():
    current = Current(topics={"clicks": PresentTopic(3, frozenset({1}))})
    (sentence,) = plan(Desired(topics={"clicks": WantedTopic(None, 3)}), current).refused
    assert "ottla reassign" in sentence


def test_a_password_is_set_when_it_is_missing_and_again_only_when_that_is_asked_for():
    desired = Desired(users={"alice": WantedUser(SECRET)})
    there = Current(users={"alice": {ScramMechanism.SCRAM_SHA_512: 4096}})
    assert len(plan(desired, Current()).changes) == 1
    assert plan(desired, there).changes == ()
    (change,) = plan(desired, there, renew_secrets=True).changes
    assert line_of(change) == "~ user alice: another password from env PASSWORD (SCRAM-SHA-512)"


def test_what_a_broker_writes_otherwise_is_the_same():
    assert same_value("0.7", "0.70")
    assert same_value("a,b", "a, b")
    assert same_value("true", "True")
    assert not same_value("1", "2")
    assert not same_value("a,b", "b,a")
