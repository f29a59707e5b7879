"""Who is a broker: by what he may, by whom he logs in as, or by where he asks from; on the listener of brokers only."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ottla.broker.network.processor import ANONYMOUS, CloseConnection
from ottla.broker.quotas.forwarded import FORWARDER
from ottla.broker.requests.context import RequestContext
from ottla.broker.security.needs import Need, was_checked
from ottla.broker.security.peers import Peers
from ottla.broker.settings import BrokerSettings
from ottla.errors import ClusterAuthorizationFailed, InvalidSetting
from ottla.protocol.access import AclOperation, AclResource
from ottla.settings import Source

JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="x" user_broker="x";'
)
PLAIN = {
    "zookeeper.connect": "127.0.0.1:2181",
    "listeners": "INNER://127.0.0.1:9093,OUTER://127.0.0.1:9092",
    "inter.broker.listener.name": "INNER",
}
INNER_LOGS_IN = {
    "listener.security.protocol.map": "INNER:SASL_PLAINTEXT,OUTER:PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.inner.plain.sasl.jaas.config": JAAS,
}
NO_LOGIN = {"listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:PLAINTEXT"}
BROKER_ADDRESS, NEW_ADDRESS, ELSEWHERE = "10.0.0.2", "10.0.0.3", "192.168.0.1"


class Access:
    """Some may CLUSTER_ACTION."""

    def __init__(self, *principals):
        self.is_on = bool(principals)
        self.principals = principals

    def allows(self, context, operation, resource, name="kafka-cluster", *, is_filter=False):
        return context.principal in self.principals and operation is AclOperation.CLUSTER_ACTION


class Addresses:
    def includes(self, address):
        return address == BROKER_ADDRESS

    async def admits(self, address):
        return address in (BROKER_ADDRESS, NEW_ADDRESS)


def make(settings, access=None, link=None):
    made = SimpleNamespace(
        settings=BrokerSettings({"log.dirs": "/data", **PLAIN, **settings}),
        access=access or Access(),
        link=link or SimpleNamespace(is_alone=False, addresses=Addresses()),
    )
    made.peers = Peers(made)
    return made


def asks(principal=ANONYMOUS, address=BROKER_ADDRESS, listener="INNER", **more):
    return RequestContext(1, "someone", address, principal=principal, listener=listener, **more)


def outcome(broker, context):
    """What happens to who asks: nothing, an error, or the end of his connection."""
    try:
        asyncio.run(broker.peers.admit(context))
    except (ClusterAuthorizationFailed, CloseConnection) as refused:
        return type(refused)
    return None


REFUSED, CLOSED = ClusterAuthorizationFailed, CloseConnection


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (asks(), None),
        (asks(address=NEW_ADDRESS), None),
        (asks(address=ELSEWHERE), CLOSED),
        (asks(listener="OUTER"), REFUSED),
    ],
)
def test_where_brokers_do_not_log_in_they_are_known_by_their_addresses(context, expected):
    assert outcome(make(NO_LOGIN), context) is expected


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (asks("User:broker", ELSEWHERE), None),
        (asks("User:admin", ELSEWHERE), None),
        (asks("User:alice"), REFUSED),
        (asks("User:broker", by_token=True), REFUSED),
        (asks("User:broker", listener="OUTER"), REFUSED),
    ],
)
def test_where_brokers_log_in_they_are_known_by_that_without_an_authorizer(context, expected):
    assert outcome(make({**INNER_LOGS_IN, "super.users": "User:admin"}), context) is expected


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (asks("User:kafka", ELSEWHERE), None),
        (asks("User:broker", ELSEWHERE), REFUSED),
        (asks(), None),
        (asks(address=ELSEWHERE), CLOSED),
        (asks("User:kafka", listener="OUTER"), REFUSED),
    ],
)
def test_with_an_authorizer_a_broker_is_who_may_act_for_the_cluster(context, expected):
    assert outcome(make(INNER_LOGS_IN, Access("User:kafka", ANONYMOUS)), context) is expected


BY_CERTIFICATE = {
    "listener.security.protocol.map": "INNER:SSL,OUTER:PLAINTEXT",
    "listener.name.inner.ssl.client.auth": "required",
    "super.users": "User:CN=kafka-2",
}


@pytest.mark.parametrize("client_auth", ["required", "requested"])
@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (asks("User:CN=kafka-1", ELSEWHERE), None),
        (asks("User:CN=kafka-2", ELSEWHERE), None),
        (asks("User:CN=alice"), REFUSED),
        (asks(), REFUSED),
        (asks("User:CN=kafka-1", listener="OUTER"), REFUSED),
    ],
)
def test_where_brokers_show_certificates_they_are_known_by_those_and_not_by_their_addresses(
    context, expected, client_auth
):
    broker = make({**BY_CERTIFICATE, "listener.name.inner.ssl.client.auth": client_auth})
    broker.peers.own_certificate = lambda: "User:CN=kafka-1"
    assert outcome(broker, context) is expected


def test_a_super_user_whom_nobody_has_authenticated_still_has_to_ask_from_an_address_of_a_broker():
    broker = make({**BY_CERTIFICATE, "super.users": ANONYMOUS})
    assert outcome(broker, asks()) is None
    assert outcome(broker, asks(address=ELSEWHERE)) is CLOSED


def test_tls_without_certificates_of_clients_proves_nothing():
    settings = {**BY_CERTIFICATE, "super.users": "", "listener.name.inner.ssl.client.auth": "none"}
    broker = make(settings)
    broker.peers.own_certificate = lambda: "User:CN=kafka-1"
    assert outcome(broker, asks()) is None
    assert outcome(broker, asks(address=ELSEWHERE)) is CLOSED


def test_a_change_that_leaves_super_users_without_meaning_is_refused():
    settings = make(BY_CERTIFICATE).settings
    with pytest.raises(InvalidSetting, match="without an authorizer everybody may do everything"):
        settings.replaced({"listener.name.inner.ssl.client.auth": "none"}, source=Source.DYNAMIC)


def test_a_broker_that_is_alone_has_no_others():
    link = SimpleNamespace(is_alone=True, addresses=None)
    assert outcome(make(NO_LOGIN, link=link), asks()) is REFUSED
    assert outcome(make(NO_LOGIN, Access("User:kafka"), link), asks("User:kafka")) is REFUSED


ALTER_TOPIC = Need(AclOperation.ALTER, AclResource.TOPIC, is_forwarded=True)


@pytest.mark.parametrize(
    ("principal", "client_id", "listener", "is_met"),
    [
        ("User:kafka", f"{FORWARDER}2", "INNER", True),
        ("User:kafka", "console", "INNER", False),
        ("User:kafka", f"{FORWARDER}2", "OUTER", False),
        ("User:alice", f"{FORWARDER}2", "INNER", False),
    ],
)
def test_only_brokers_are_believed_to_have_checked_what_they_pass_on(principal, client_id, listener, is_met):
    broker = make(INNER_LOGS_IN, Access("User:kafka"))
    context = RequestContext(1, client_id, ELSEWHERE, principal=principal, listener=listener)
    assert was_checked(broker, context) is is_met
    assert ALTER_TOPIC.is_met(broker, context, "orders") is is_met
    assert not replace(ALTER_TOPIC, is_forwarded=False).is_met(broker, context, "orders")


def test_brokers_with_tokens_of_a_provider_are_those_that_super_users_names():
    """Nobody but the provider says whom such a token is for."""
    tokens = {
        "listener.security.protocol.map": "INNER:SASL_PLAINTEXT,OUTER:PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.inner.oauthbearer.sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
        ),
        "super.users": "User:broker",
    }
    peers = make(tokens).peers
    asks = RequestContext(0, "client", BROKER_ADDRESS, listener="INNER", security_protocol="SASL_PLAINTEXT")
    assert peers.refusal(replace(asks, principal="User:broker")) is None
    assert isinstance(peers.refusal(replace(asks, principal="User:client")), ClusterAuthorizationFailed)
