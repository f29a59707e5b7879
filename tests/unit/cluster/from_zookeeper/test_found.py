"""A cluster is read from ZooKeeper when nobody of it is there, and what nobody knows is found."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

pytest.importorskip("kazoo")

from ottla.cluster.from_zookeeper.found import ClusterLives, Found, NoClusterThere, read_from
from ottla.cluster.store.zookeeper import paths, znodes
from ottla.cluster.store.zookeeper.znodes import Znode

CLUSTER = {paths.CLUSTER_ID: znodes.cluster_id_json("FnZ3MDgSTgmwuXkiKZ5q_w")}
TOPIC = b'{"version":3,"topic_id":"b3R0bGEtZ29sZGVuLTAwMw","partitions":{"0":[1]}}'


class Tree:
    """What is asked of a session, of a dictionary."""

    def __init__(self, nodes: dict[str, bytes | None]) -> None:
        self.nodes = nodes
        self.asked: list[str] = []

    def get(self, path: str) -> Znode | None:
        return self.get_many([path]).get(path)

    def get_many(self, wanted: Iterable[str]) -> dict[str, Znode]:
        return {path: Znode(self.nodes[path]) for path in wanted if path in self.nodes}

    def children(self, path: str) -> list[str]:
        return self.children_of([path])[path]

    def children_of(self, wanted: Iterable[str]) -> dict[str, list[str]]:
        return {
            path: sorted({each[len(path) + 1 :].partition("/")[0] for each in self._below(path)}) for path in wanted
        }

    def _below(self, path: str) -> list[str]:
        return [each for each in self.nodes if each.startswith(path + "/")]


def read(**more: bytes | None) -> Found:
    nodes = {**CLUSTER, **{path.replace("__", "/"): data for path, data in more.items()}}
    return read_from(Tree(nodes), "zoo:2181/kafka")  # type: ignore[arg-type]


def test_everything_of_a_stopped_cluster_is_read() -> None:
    found = read(__brokers__topics__clicks=TOPIC, __config__topics__clicks=b"{}", __latest_producer_id_block=b"{}")
    assert {paths.topic("clicks"), "/config/topics/clicks", paths.PRODUCER_IDS} <= set(found.nodes)


def test_a_registered_broker_is_named() -> None:
    with pytest.raises(ClusterLives, match="brokers 2, 11 of the cluster are registered"):
        read(__brokers__ids__11=b"{}", __brokers__ids__2=b"{}")
    with pytest.raises(ClusterLives, match="broker 2 of the cluster is registered"):
        read(__brokers__ids__2=b"{}")


def test_a_controller_is_somebody() -> None:
    with pytest.raises(ClusterLives, match="has a controller"):
        read(__controller=b"{}")


def test_a_migration_of_apaches_is_left_to_it() -> None:
    with pytest.raises(ClusterLives, match="/migration"):
        read(__migration=b"{}")


def test_a_wrong_path_is_said() -> None:
    with pytest.raises(NoClusterThere, match="zoo:2181/kafka"):
        read_from(Tree({}), "zoo:2181/kafka")  # type: ignore[arg-type]


def test_kinds_of_settings_and_rules_that_nobody_knows_are_found() -> None:
    found = read(
        __config__planets__mars=b"{}",
        __config__changes__config_change_1=b"{}",
        **{"__kafka-acl__Planet__mars": b"{}", "__kafka-acl__Topic__a": b"{}"},
        **{"__kafka-acl-extended__suffixed__Topic__b": b"{}", "__kafka-acl-extended__prefixed__Topic__c": b"{}"},
    )
    assert set(found.unknown) == {
        "/config/planets/mars",
        "/kafka-acl/Planet/mars",
        "/kafka-acl-extended/suffixed/Topic/b",
    }
