"""Everything that a stopped cluster has in ZooKeeper, read without writing anything.

1. Nobody may be there: no broker is registered and no controller is elected, before the reading and after it. What a
   living cluster decides meanwhile would be lost.
2. A cluster that Apache Kafka has begun to take over by itself (/migration) is refused: its controllers have a log.
3. Names that nobody here knows are found too, so that they can be told instead of being lost in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.cluster.store.zookeeper import paths
from ottla.cluster.store.zookeeper.connecting import Connection
from ottla.cluster.store.zookeeper.everything import read_all
from ottla.cluster.store.zookeeper.session import Session
from ottla.cluster.store.zookeeper.znodes import Znode
from ottla.errors import OttlaError
from ottla.light_tuples import NamedTuple

MIGRATION: Final = "/migration"
_KNOWN_FOLDERS: Final = (*paths.CONFIG_TYPES, paths.CONFIG_CHANGES.rpartition("/")[2])


class ClusterLives(OttlaError):
    """Somebody of the cluster still is in ZooKeeper, so nothing is taken over. Stop every broker first."""


class NoClusterThere(OttlaError):
    """There is no Kafka cluster at this place in ZooKeeper. Look at the address, and at the path behind it."""


class CannotRead(OttlaError):
    """ZooKeeper does not tell all of the cluster, so nothing is taken over."""


class Found(NamedTuple):
    """What is in ZooKeeper: node by path, and paths of settings and rules of kinds that nobody here knows."""

    nodes: dict[str, Znode]
    unknown: tuple[str, ...] = ()


def read_stopped(connection: Connection) -> Found:
    """All of a cluster that is stopped."""
    session = Session(connection, lambda path: None, lambda is_connected, is_lost: None)
    session.start(only_reads=True)
    try:
        return read_from(session, connection.hosts)
    except OttlaError:
        raise
    except Exception as problem:  # kazoo's have no class in common with ours
        raise CannotRead(
            f"{connection.hosts}: {type(problem).__name__}. Is a login missing? It is that of the brokers, "
            "in the file of --zookeeper-config"
        ) from problem
    finally:
        session.close()


def read_from(session: Session, where: str) -> Found:
    """The same by a session that is open."""
    if session.get(paths.CLUSTER_ID) is None:
        raise NoClusterThere(f"{where} has no {paths.CLUSTER_ID}: there is no Kafka cluster. Is there a path missing?")
    if session.get(MIGRATION) is not None:
        raise ClusterLives(
            f"{where} has {MIGRATION}: Apache Kafka's controllers have begun to take this cluster over, and have a "
            "metadata log of it. Finish that, or go back, as Apache Kafka 3.9's documentation says"
        )
    _refuse_living(session.children, session.get)
    found = Found(read_all(session), tuple(_unknown(session.children)))
    _refuse_living(session.children, session.get)
    return found


def _refuse_living(children: Callable[[str], list[str]], get: Callable[[str], Znode | None]) -> None:
    brokers = children(paths.BROKER_IDS)
    if brokers:
        named = f"broker{'s' * (len(brokers) != 1)} {', '.join(sorted(brokers, key=int))}"
        raise ClusterLives(
            f"{named} of the cluster {'are' if len(brokers) != 1 else 'is'} registered in ZooKeeper. Stop every "
            "broker; one that was killed is gone after zookeeper.session.timeout.ms (18 seconds)"
        )
    if get(paths.CONTROLLER) is not None:
        raise ClusterLives(
            f"the cluster has a controller in ZooKeeper ({paths.CONTROLLER}). Stop it, or wait until its session ends"
        )


def _unknown(children: Callable[[str], list[str]]) -> list[str]:
    """What is read by nobody: kinds of settings and rules that came after this version, or that others made."""
    kinds = [f"{paths.CONFIG}/{name}" for name in children(paths.CONFIG) if name not in _KNOWN_FOLDERS]
    roots = [paths.ACL, *(f"{paths.ACL_EXTENDED}/{name}" for name in children(paths.ACL_EXTENDED))]
    kinds += [f"{root}/{of}" for root in roots for of in children(root) if not _is_read(root, of)]
    return [f"{kind}/{name}" for kind in kinds for name in children(kind)]


def _is_read(root: str, of: str) -> bool:
    return root in (paths.ACL, f"{paths.ACL_EXTENDED}/prefixed") and of in paths.ACL_TYPES
