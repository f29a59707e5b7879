"""Strangers share little memory: who holds it for the longest is closed, and honest logins go on."""

from __future__ import annotations

import socket
import struct

from tests.patience import wait_until

from ottla import Admin
from ottla.broker.network.login_memory import LOGIN_CHUNK_BYTES, LOGIN_MEMORY_BYTES, LoginMemory
from ottla.testing import KafkaBroker


class FakeLink:
    big_frame_missing_bytes, is_paused, remote_address = 1, False, ("10.0.0.1", 1)

    def __init__(self, held_bytes: int = 0) -> None:
        self.big_frame_bytes = held_bytes
        self.is_aborted = False

    def wait_for_memory(self, waits: bool) -> None: ...

    def abort(self, reason: object = None) -> None:
        self.is_aborted = True


class Behind:
    def __init__(self) -> None:
        self.calls: list[tuple[str, FakeLink]] = []

    def receiving(self, link: FakeLink) -> None:
        self.calls.append(("receiving", link))

    def received(self, link: FakeLink) -> None:
        self.calls.append(("received", link))


def test_the_one_that_began_first_is_closed_when_all_hold_too_much() -> None:
    memory = LoginMemory(Behind(), limit_bytes=100)
    links = [FakeLink(40) for _ in range(3)]
    for link in links:
        memory.enter(link)
        memory.receiving(link)
    assert [link.is_aborted for link in links] == [True, False, False]
    assert memory.size_bytes == 80
    links[1].big_frame_bytes = 60
    memory.receiving(links[1])
    assert (memory.size_bytes, links[1].is_aborted) == (100, False)
    links[2].big_frame_bytes = 41
    memory.receiving(links[2])
    assert (memory.size_bytes, links[1].is_aborted, links[2].is_aborted) == (41, True, False)


def test_what_is_whole_or_gone_is_not_counted() -> None:
    behind = Behind()
    memory = LoginMemory(behind, limit_bytes=100)
    link = FakeLink(40)
    memory.enter(link)
    memory.receiving(link)
    memory.received(link)
    assert memory.size_bytes == 0
    memory.receiving(link)
    link.big_frame_bytes = 0
    memory.leave(link)
    memory.leave(link)
    assert (memory.size_bytes, behind.calls) == (0, [])


def test_after_its_login_a_link_is_counted_with_the_others_even_in_the_middle_of_a_frame() -> None:
    behind = Behind()
    memory = LoginMemory(behind, limit_bytes=100)
    link = FakeLink(40)
    memory.enter(link)
    memory.receiving(link)
    memory.leave(link)
    memory.received(link)
    assert behind.calls == [("receiving", link), ("received", link)]


def test_strangers_with_large_messages_are_closed_and_a_user_logs_in() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
    }
    with KafkaBroker(settings) as broker:
        host, _, port = broker.bootstrap_servers.partition(":")
        strangers = [socket.create_connection((host, int(port))) for _ in range(20)]
        try:
            for each in strangers:
                each.sendall(struct.pack(">ihhi", 524_288, 36, 2, 1) + bytes(500_000))
            wait_until(lambda: broker.call(lambda server: len(server.listeners.acceptor.connections)) < len(strangers))
            assert broker.call(lambda server: server.listeners.acceptor.login_memory.size_bytes) <= LOGIN_MEMORY_BYTES
            chunks = broker.call(
                lambda server: {each._link.chunk_bytes for each in server.listeners.acceptor.connections}
            )
            assert chunks == {LOGIN_CHUNK_BYTES}
            with Admin(
                bootstrap_servers=broker.bootstrap_servers,
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="PLAIN",
                sasl_username="alice",
                sasl_password="secret",
            ) as admin:
                assert admin.list_topics() == {}
        finally:
            for each in strangers:
                each.close()


def test_a_message_above_the_limit_is_refused_when_its_size_is_known() -> None:
    settings = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    with KafkaBroker(settings) as broker:
        host, _, port = broker.bootstrap_servers.partition(":")
        for size in (524_289, 2**31 - 1, -1):
            with socket.create_connection((host, int(port))) as stranger:
                stranger.settimeout(60)
                stranger.sendall(struct.pack(">ihhi", size, 36, 2, 1))
                assert stranger.recv(1) == b""
