"""`ottla broker start --new-cluster` and `--join`: the token, what is written down, what is refused. No server runs."""

from __future__ import annotations

import argparse
import socket
from pathlib import Path
from random import Random

import pytest

from ottla.broker.settings import BrokerSettings
from ottla.cli.commands.broker import read_settings
from ottla.cli.main import make_parser
from ottla.cli.output import Failure
from ottla.cli.quorum.after_joining import more_copies
from ottla.cli.quorum.beginning import StartedNode, node_settings, prepared_node
from ottla.cli.quorum.joining import free_id, is_ours, may_vote
from ottla.cli.quorum.node_file import read_node_file, with_node_file, write_node_file
from ottla.cli.quorum.places import Place, choose_place, free_port
from ottla.cli.quorum.tokens import JoinToken
from ottla.quorum_health import QuorumEndpoint, QuorumInfo, QuorumReplica
from ottla.values import TopicPartition, random_uuid, uuid_to_text

CLUSTER = "5L6g3nShT-eMCtK--X86sw"


def options(data: Path, *words: str) -> argparse.Namespace:
    return make_parser(["broker"]).parse_args(["broker", "start", "--data", str(data), *words])


def started(data: Path, *words: str) -> StartedNode:
    chosen = options(data, *words)
    node = prepared_node(chosen, read_settings(chosen, {})[0])
    assert node is not None
    return node


def quorum(*silences_ms: int | None, observers: tuple[QuorumReplica, ...] = ()) -> QuorumInfo:
    """Voters 1, 2, ..., of which the first leads, and for how long the others have been silent."""
    voters = [
        QuorumReplica(number, 10, None if silence is None else 100_000 - silence, None, bytes([number]) * 16)
        for number, silence in enumerate(silences_ms, 1)
    ]
    endpoints = {each.node_id: (QuorumEndpoint("CONTROLLER", "127.0.0.1", 9093),) for each in voters}
    return QuorumInfo(1, 4, 10, tuple(voters), observers, endpoints)


# --- the token -------------------------------------------------------------------------------------------------------


def test_a_token_names_its_cluster() -> None:
    random = Random(4)
    for _ in range(50):
        cluster_id = uuid_to_text(random_uuid(random.randbytes))
        token = JoinToken.parse(JoinToken(cluster_id).text)
        assert token == JoinToken(cluster_id)
        token.check(cluster_id, "one:9092")
        with pytest.raises(Failure, match=f"at one:9092 is {CLUSTER}, and the token is for {cluster_id}"):
            token.check(CLUSTER, "one:9092")


def test_a_token_that_was_cut_or_mistyped_is_none() -> None:
    text = JoinToken(CLUSTER).text
    for wrong in ("", "x", text[:-1], text[1:], text.replace("5L6g", "5L6q"), text + "0", f"1.{CLUSTER}"):
        with pytest.raises(Failure, match="incomplete or mistyped"):
            JoinToken.parse(wrong)
    with pytest.raises(Failure, match="version 3"):
        JoinToken.parse(f"3{text[1:]}")


# --- the first node --------------------------------------------------------------------------------------------------


def test_the_first_node_is_broker_and_controller_and_finds_its_ports_again(tmp_path: Path) -> None:
    first = started(tmp_path, "--new-cluster", "--listen", "127.0.0.1:0")
    settings = first.settings
    assert settings.is_controller
    assert settings.wanted_id == 1
    assert settings.endpoints[0].port != settings.controller_listeners[0].port
    assert 0 not in (settings.endpoints[0].port, settings.controller_listeners[0].port)
    for words in (["--new-cluster", "--listen", "127.0.0.1:0"], ["--listen", "127.0.0.1:0"], []):
        again = started(tmp_path, *words)
        assert again.settings.listeners == settings.listeners
        assert again.begins is ("--new-cluster" in words)


def test_internal_topics_begin_with_what_is_there(tmp_path: Path) -> None:
    settings = started(tmp_path, "--new-cluster", "--set", "offsets.topic.replication.factor=5").settings
    assert settings.offsets_topic_replication_factor == 5
    assert settings.transaction_state_log_min_isr == 2
    assert settings.ottla_internal_topics_fewer_copies


def test_a_later_start_may_listen_elsewhere_and_that_is_kept(tmp_path: Path) -> None:
    port = free_port("127.0.0.1", 0)
    controller = started(tmp_path, "--new-cluster").settings.controller_listeners
    moved = started(tmp_path, "--listen", f"127.0.0.1:{port}").settings
    assert (moved.endpoints[0].port, moved.controller_listeners) == (port, controller)
    assert started(tmp_path).settings.endpoints[0].port == port


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--new-cluster", "--join", "a:1"], "contradict each other"),
        (["--new-cluster", "--secure", "--set", "ssl.keystore.location=/x"], "the certificates of all nodes"),
        (["--new-cluster", "--secure", "--set", "listeners=PLAINTEXT://127.0.0.1:0"], "is not SASL_SSL"),
        (["--new-cluster", "--brokers", "3"], "Leave out one"),
        (["--new-cluster", "--zookeeper", "a:2181"], "without ZooKeeper"),
        (["--new-cluster", "--set", "process.roles=broker,controller"], "the settings say already"),
        (["--new-cluster", "--voters", "0"], "1 to 9 voters"),
        (["--join", "127.0.0.1:1"], "--join needs --token"),
        (["--join", "127.0.0.1:1", "--token", "x"], "mistyped"),
        (["--token", "x"], "--token is for --join"),
        (["--voters", "5"], "--voters is for --join"),
    ],
)
def test_what_does_not_go_together_is_said(tmp_path: Path, words: list[str], sentence: str) -> None:
    with pytest.raises(Failure, match=sentence):
        started(tmp_path / "data", *words)
    assert not (tmp_path / "data" / "node.properties").exists()


def test_the_data_of_a_broker_of_its_own_is_not_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    with pytest.raises(Failure, match="a cluster of its own, and --new-cluster begins anew"):
        started(tmp_path, "--new-cluster")


def test_listeners_with_a_lock_are_for_another_way(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="is not PLAINTEXT"):
        started(tmp_path, "--new-cluster", "--set", "listeners=SASL_SSL://127.0.0.1:0")


def test_a_secured_node_has_doors_for_clients_brokers_and_controllers_and_stays_locked(tmp_path: Path) -> None:
    settings = started(tmp_path, "--new-cluster", "--secure", "--set", "super.users=User:ann").settings
    assert [each.protocol for each in settings.endpoints] == ["SASL_SSL", "SSL"]
    assert [each.protocol for each in settings.controller_listeners] == ["SSL"]
    assert settings.super_users == "User:admin;User:ottla-node;User:ann"
    for listener in (settings.inter_broker_listener, *settings.controller_listeners):
        assert settings.for_listener(listener.name).ssl_client_auth == "required"
    again = started(tmp_path, "--set", "allow.everyone.if.no.acl.found=true").settings
    assert again.listeners == settings.listeners
    assert not again.allow_everyone_if_no_acl_found
    assert again.super_users == settings.super_users
    with pytest.raises(Failure, match=r"would be open. Add --secure"):
        started(tmp_path, "--listen", "127.0.0.1:0")
    moved = started(tmp_path, "--secure", "--new-cluster", "--listen", "127.0.0.1:0").settings
    assert moved.listeners == settings.listeners


# --- the others ------------------------------------------------------------------------------------------------------


def test_an_id_is_above_all_that_are_known() -> None:
    gone = QuorumReplica(7, 3, 5, None, bytes(16))
    assert free_id([1, 2, 5], quorum(0, 10)) == 6
    assert free_id([1], quorum(0, 10, observers=(gone,))) == 8
    assert free_id([], quorum()) == 1


def test_an_id_is_ours_when_no_other_directory_has_it() -> None:
    mine, other = (QuorumReplica(4, 3, 5, None, bytes([number]) * 16) for number in (8, 9))
    assert is_ours(quorum(0, observers=(mine,)), 4, bytes([8]) * 16)
    assert not is_ours(quorum(0, observers=(mine, other)), 4, bytes([8]) * 16)
    assert not is_ours(quorum(0), 4, bytes([8]) * 16)


@pytest.mark.parametrize(
    ("silences_ms", "votes"),
    [((0,), True), ((0, 100), True), ((0, 100, 300), False), ((0, 100, 9_000), True), ((0, 100, None), True)],
)
def test_who_joins_may_vote_while_voters_are_missing(silences_ms: tuple[int | None, ...], votes: bool) -> None:
    assert may_vote(quorum(*silences_ms), 3) is votes
    assert may_vote(quorum(*silences_ms), 5)


def place(host: str = "10.0.0.2") -> Place:
    settings = BrokerSettings({"listeners": f"PLAINTEXT://{host}:9092", "ottla.allow.insecure.listeners": "true"})
    return Place(settings.endpoints, host, (host, 9093), None)


def test_a_node_without_a_vote_opens_no_controller_listener(tmp_path: Path) -> None:
    plain = BrokerSettings({"ottla.allow.insecure.listeners": "true"})
    stored = node_settings(plain, place(), node_id=4, votes=False, voters=3, bootstrap="10.0.0.1:9093")
    settings = with_node_file(plain, stored)
    assert settings.is_under_controllers
    assert not settings.is_controller
    assert [each.port for each in settings.endpoints] == [9092]


def test_a_broker_becomes_a_controller_when_more_voters_are_wanted(tmp_path: Path) -> None:
    plain = BrokerSettings({})
    stored = node_settings(plain, place("127.0.0.1"), node_id=4, votes=False, voters=3, bootstrap="127.0.0.1:1")
    write_node_file(tmp_path, stored)
    (tmp_path / "meta.properties").write_text("version=1\n")
    settings = started(tmp_path, "--voters", "5").settings
    assert settings.is_controller
    assert settings.ottla_controller_quorum_voters_max == 5
    assert started(tmp_path).settings.is_controller
    assert read_node_file(tmp_path)["process.roles"] == "broker,controller"


def test_another_id_than_the_directory_has_is_refused(tmp_path: Path) -> None:
    started(tmp_path, "--new-cluster")
    with pytest.raises(Failure, match="is node 1's, and the settings say 2"):
        started(tmp_path, "--set", "node.id=2")


def test_who_writes_his_roles_himself_is_not_told_what_he_is(tmp_path: Path) -> None:
    started(tmp_path, "--new-cluster")
    words = ["--set", "process.roles=broker", "--set", "node.id=9", "--set", "controller.listener.names=CONTROLLER"]
    chosen = options(tmp_path, *words, "--set", "controller.quorum.bootstrap.servers=127.0.0.1:1")
    assert prepared_node(chosen, read_settings(chosen, {})[0]) is None


def test_ports_that_others_have_are_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        chosen = choose_place(BrokerSettings({"listeners": f"PLAINTEXT://127.0.0.1:{port - 1}"}), None, "127.0.0.1")
        assert chosen.controller[1] > port
        said = choose_place(BrokerSettings({}), "127.0.0.1:4711", "127.0.0.1")
    assert said.controller_address == "127.0.0.1:4711"


def test_internal_topics_get_the_copies_that_the_brokers_can_have() -> None:
    current = {TopicPartition("t", 0): [1], TopicPartition("t", 1): [2, 1], TopicPartition("t", 2): [3, 1, 2]}
    more = more_copies(current, {1: None, 2: None, 3: None}, 3)
    assert {key.partition: sorted(replicas) for key, replicas in more.items()} == {0: [1, 2, 3], 1: [1, 2, 3]}
    assert [replicas[0] for replicas in more.values()] == [1, 2]
    assert more_copies({TopicPartition("t", 0): [1]}, {1: None}, 3) == {}
