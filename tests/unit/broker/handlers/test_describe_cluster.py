"""DescribeCluster: who is there, and how it is, for who asks for more than brokers that serve."""

from __future__ import annotations

from types import SimpleNamespace

from ottla.broker.handlers.cluster.describe_cluster import handle
from ottla.broker.http.call import context_of
from ottla.client.admin.cluster import DescribeCluster
from ottla.cluster.changes import RegisterBroker, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker, Endpoint
from ottla.light_dataclasses import replace
from ottla.protocol.compiled import decode, encode
from ottla.protocol.messages.describe_cluster import DescribeClusterResponse

CONTEXT = replace(context_of("User:a", "127.0.0.1"), listener="PLAINTEXT")


def known(broker_id, **state):
    return RegisterBroker(Broker(broker_id, (Endpoint("PLAINTEXT", f"host-{broker_id}", 9092),), **state))


IMAGE = apply_all(ClusterImage("c"), [known(1), known(2, in_controlled_shutdown=True), known(3, fenced=True)])


def described(*, everybody):
    broker = SimpleNamespace(image=IMAGE, link=SimpleNamespace(controller_for_clients=1))
    question = DescribeCluster(include_fenced_brokers=everybody)
    response = handle(broker, question.ask(1_000), CONTEXT)
    return question, response


def test_brokers_that_hand_over_and_fenced_ones_are_told_to_who_asks_for_all():
    question, response = described(everybody=True)
    written = b"".join(map(bytes, encode(response, 2)))
    found = question.answer(decode(DescribeClusterResponse, 2, written))
    assert [node.id for node in found.nodes] == [1, 2, 3]
    assert (found.in_controlled_shutdown, found.fenced) == ({2}, {3})


def test_nobody_else_sees_a_field_that_kafka_has_not():
    question, response = described(everybody=False)
    assert [node.id for node in question.answer(response).nodes] == [1, 2]
    for version in (0, 1, 2):
        assert b"\x90\x4e" not in b"".join(map(bytes, encode(response, version))), "tag 10000"
