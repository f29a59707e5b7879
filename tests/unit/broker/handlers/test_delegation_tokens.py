"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken: who hears what."""

from __future__ import annotations

import asyncio
import hmac

import pytest

from ottla.broker.security.delegation_tokens import remove_expired_tokens
from ottla.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenAuthorizationFailed,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    DelegationTokenRequestNotAllowed,
    InvalidPrincipalType,
    PolicyViolation,
)
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

SECRET_KEY = "a secret that all brokers share"
LIFE_MS = 604_800_000
DAY_MS = 86_400_000

REQUESTS = [
    CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1),
    RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1),
    ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1),
    DescribeDelegationTokenRequest(owners=None),
]


class Rules:
    """An authorizer for tests: a set of (principal, operation, resource, name) that are allowed."""

    is_on = True

    def __init__(self, *allowed):
        self.rules = set(allowed)

    def update(self, image):
        pass

    def allows(self, context, operation, resource, name="kafka-cluster", *, is_filter=False):
        return (context.principal, operation, resource, name) in self.rules


@pytest.fixture
def broker(make_broker):
    return make_broker(**{"delegation.token.secret.key": SECRET_KEY})


def as_user(name):
    return {"principal": f"User:{name}", "security_protocol": "SASL_SSL", "listener": "SASL_SSL"}


def create(broker, user="alice", renewers=(), owner=None, max_lifetime_ms=-1, version=None, **who):
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers],
        max_lifetime_ms=max_lifetime_ms,
    )
    if owner is not None:
        request.owner_principal_type, request.owner_principal_name = owner
    return broker.ask(request, version, **as_user(user), **who)


def renew(broker, secret, user="alice", period_ms=-1):
    return broker.ask(RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms), **as_user(user))


def expire(broker, secret, user="alice", period_ms=-1):
    return broker.ask(ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms), **as_user(user))


def describe(broker, user="alice", owners=None, version=None):
    names = None
    if owners is not None:
        names = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
    answer = broker.ask(DescribeDelegationTokenRequest(owners=names), version, **as_user(user))
    assert answer.error_code == 0
    return answer.tokens


# -- who may ask


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("version", [1, 2])
def test_tokens_are_refused_by_who_asks(make_broker, request_, version):
    broker = make_broker()

    def code(protocol, **who):
        return broker.ask(request_, version, security_protocol=protocol, **who).error_code

    assert code("PLAINTEXT", principal="User:alice") == DelegationTokenRequestNotAllowed.code
    assert code("SSL") == DelegationTokenRequestNotAllowed.code
    assert code("SASL_SSL", principal="User:alice", by_token=True) == DelegationTokenRequestNotAllowed.code
    assert code("SSL", principal="User:CN=me") == DelegationTokenAuthDisabled.code
    assert code("SASL_PLAINTEXT", principal="User:alice") == DelegationTokenAuthDisabled.code


def test_a_refused_token_names_owner_and_requester(broker):
    request = CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="bob", renewers=[], max_lifetime_ms=-1
    )
    answer = broker.ask(request, 3, principal="User:alice")
    assert (answer.principal_type, answer.principal_name) == ("User", "bob")
    assert (answer.token_requester_principal_type, answer.token_requester_principal_name) == ("User", "alice")
    assert (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms) == (-1, -1, -1)


def test_the_older_name_of_the_secret_switches_tokens_on_too(make_broker):
    older = make_broker(**{"delegation.token.master.key": SECRET_KEY})
    assert create(older).error_code == 0
    assert make_broker(**{"delegation.token.secret.key": ""}).broker.tokens.rules is None


# -- creating


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_token_is_created_and_told(broker, version):
    answer = create(broker, renewers=[("User", "bob")], version=version)
    now_ms = broker.clock.now_ms()
    assert answer.error_code == 0
    assert (answer.principal_type, answer.principal_name) == ("User", "alice")
    assert answer.token_requester_principal_name == ("alice" if version == 3 else "")
    assert answer.issue_timestamp_ms == now_ms
    assert answer.expiry_timestamp_ms == now_ms + DAY_MS
    assert answer.max_timestamp_ms == now_ms + LIFE_MS
    assert answer.hmac == hmac.digest(SECRET_KEY.encode(), answer.token_id.encode(), "sha512")
    (told,) = describe(broker, version=version)
    assert (told.token_id, told.hmac, told.max_timestamp) == (answer.token_id, answer.hmac, answer.max_timestamp_ms)
    assert [(one.principal_type, one.principal_name) for one in told.renewers] == [("User", "bob")]
    assert told.token_requester_principal_name == ("alice" if version == 3 else "")


def test_a_token_for_somebody_else_needs_a_right(broker):
    broker.broker.access = Rules(("User:alice", AclOperation.CREATE_TOKENS, AclResource.USER, "User:bob"))
    answer = create(broker, owner=("User", "bob"))
    assert (answer.error_code, answer.principal_name, answer.token_requester_principal_name) == (0, "bob", "alice")
    refused = create(broker, owner=("User", "carol"))
    assert refused.error_code == DelegationTokenAuthorizationFailed.code
    assert (refused.principal_name, refused.token_id, refused.hmac) == ("carol", "", b"")
    assert create(broker, user="bob", owner=("User", "bob")).error_code == 0
    assert create(broker, user="bob").error_code == 0


def test_a_renewer_that_is_no_user_is_refused(broker):
    answer = create(broker, renewers=[("User", "bob"), ("Group", "all")])
    assert (answer.error_code, answer.issue_timestamp_ms) == (InvalidPrincipalType.code, -1)
    assert describe(broker) == []


def test_tokens_survive_a_restart(broker):
    token_id = create(broker).token_id
    broker.restart()
    assert [token.token_id for token in describe(broker)] == [token_id]


# -- renewing and expiring


def test_a_token_is_renewed_by_those_who_may(broker):
    token = create(broker, renewers=[("User", "bob")])
    broker.clock.move(1_000)
    assert renew(broker, token.hmac).expiry_timestamp_ms == token.expiry_timestamp_ms + 1_000
    assert renew(broker, token.hmac, "bob", 5_000).expiry_timestamp_ms == broker.clock.now_ms() + 5_000
    refused = renew(broker, token.hmac, "mallory")
    assert (refused.error_code, refused.expiry_timestamp_ms) == (DelegationTokenOwnerMismatch.code, 0)
    assert renew(broker, b"x" * 64).error_code == DelegationTokenNotFound.code
    assert renew(broker, b"").error_code == DelegationTokenNotFound.code
    broker.clock.move(5_001)
    assert renew(broker, token.hmac, "bob").error_code == DelegationTokenExpired.code


def test_a_token_is_expired_at_once_or_later(broker):
    token = create(broker)
    assert expire(broker, token.hmac, "bob").error_code == DelegationTokenOwnerMismatch.code
    later = expire(broker, token.hmac, period_ms=1_000)
    assert (later.error_code, later.expiry_timestamp_ms) == (0, broker.clock.now_ms() + 1_000)
    now = expire(broker, token.hmac)
    assert (now.error_code, now.expiry_timestamp_ms) == (0, broker.clock.now_ms())
    assert expire(broker, token.hmac).error_code == DelegationTokenNotFound.code
    assert describe(broker) == []


# -- describing


def test_everybody_sees_the_tokens_that_concern_him(broker):
    broker.broker.access = Rules()
    mine = create(broker, "alice", renewers=[("User", "bob")]).token_id
    other = create(broker, "carol").token_id
    seen = {user: {token.token_id for token in describe(broker, user)} for user in ("alice", "bob", "carol", "dave")}
    assert seen == {"alice": {mine}, "bob": {mine}, "carol": {other}, "dave": set()}


def test_rights_show_the_tokens_of_others(broker):
    mine, other = create(broker, "alice").token_id, create(broker, "carol").token_id
    broker.broker.access = Rules(
        ("User:dave", AclOperation.DESCRIBE, AclResource.DELEGATION_TOKEN, mine),
        ("User:erin", AclOperation.DESCRIBE_TOKENS, AclResource.USER, "User:carol"),
    )
    assert [token.token_id for token in describe(broker, "dave")] == [mine]
    assert [token.token_id for token in describe(broker, "erin")] == [other]


def test_owners_choose_among_the_tokens(broker):
    mine = create(broker, "alice", renewers=[("User", "bob")]).token_id
    other = create(broker, "carol").token_id
    assert {token.token_id for token in describe(broker)} == {mine, other}
    assert describe(broker, owners=[]) == []
    assert [token.token_id for token in describe(broker, owners=["carol", "nobody"])] == [other]
    assert [token.token_id for token in describe(broker, owners=["bob"])] == [mine]


# -- many tokens


def test_one_owner_has_a_limited_number_of_tokens(broker, monkeypatch):
    monkeypatch.setattr(broker.broker.tokens, "_per_owner", 2)
    made = [create(broker, "alice") for _ in range(3)]
    assert [answer.error_code for answer in made] == [0, 0, PolicyViolation.code]
    assert made[2].hmac == b""
    assert create(broker, "carol").error_code == 0
    assert len(describe(broker)) == 3


# -- old tokens


def test_tokens_that_are_too_old_are_removed(broker):
    create(broker, max_lifetime_ms=1_000)
    kept = create(broker).token_id

    def sweep():
        return asyncio.get_running_loop().create_task(remove_expired_tokens(broker.broker))

    broker.do(sweep)
    assert len(describe(broker)) == 2
    broker.clock.move(1_001)
    broker.do(sweep)
    assert [token.token_id for token in describe(broker)] == [kept]
