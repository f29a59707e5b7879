"""Reading a whole cluster, and making a new one: what is asked of a session at the beginning and at every take-over."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.cluster.store.interface import StaleImage
from ottla.cluster.store.zookeeper import paths, znodes
from ottla.cluster.store.zookeeper.reading import topic_names, topic_of
from ottla.cluster.store.zookeeper.session import Refused, Session
from ottla.cluster.store.zookeeper.writes import Check, Create, Ensure, SetData
from ottla.cluster.store.zookeeper.znodes import Znode
from ottla.light_dataclasses import replace
from ottla.storage.directory.checkpoints import ForeignDirectory
from ottla.values import ZERO_UUID, random_uuid, uuid_to_text

_ACL_ROOTS = (paths.ACL, f"{paths.ACL_EXTENDED}/prefixed")


def make_cluster(session: Session, wanted: str | None, random_bytes: Callable[[int], bytes]) -> str:
    """Make what Kafka makes at its start, as far as it is not there; gives the cluster's id."""
    missing = set(paths.MADE_AT_START) - set(session.get_many(paths.MADE_AT_START))
    made = dict.fromkeys(each for path in sorted(missing) for each in (*paths.parents(path), path))
    session.make([Ensure(path) for path in made])
    if session.get(paths.FEATURE) is None:
        _make_unless_there(session, paths.FEATURE, znodes.features_json({}))
    node = session.get(paths.CLUSTER_ID)
    if node is None:
        identity = wanted or uuid_to_text(random_uuid(random_bytes))
        _make_unless_there(session, paths.CLUSTER_ID, znodes.cluster_id_json(identity))
        node = session.get(paths.CLUSTER_ID)
    assert node is not None
    found = znodes.read_cluster_id(node)
    if wanted is not None and found != wanted:
        raise ForeignDirectory(
            f"ZooKeeper has cluster {found}, but this broker belongs to cluster {wanted}. Give it the "
            "zookeeper.connect of its own cluster, or log.dirs that no other cluster has used"
        )
    return found


def _make_unless_there(session: Session, path: str, data: bytes) -> None:
    try:
        session.make([*map(Ensure, paths.parents(path)), Create(path, data)])
    except Refused:
        if session.get(path) is None:  # else another broker was faster
            raise


def read_known_to_all(session: Session) -> dict[str, Znode]:
    """Settings, quotas, credentials, access rules, tokens, features."""
    folders = session.children_of(f"{paths.CONFIG}/{kind}" for kind in paths.CONFIG_TYPES)
    entities = _below(folders.items())
    users = [path for path in entities if path.startswith(f"{paths.CONFIG}/users/")]
    entities += _below(session.children_of(f"{user}/clients" for user in users).items())
    rules = _below(session.children_of(_below(session.children_of(_ACL_ROOTS).items())).items())
    tokens = _below([(paths.TOKENS, session.children(paths.TOKENS))])
    return session.get_many([paths.CLUSTER_ID, paths.FEATURE, *entities, *rules, *tokens])


def read_all(session: Session) -> dict[str, Znode]:
    """Every node that an image is made of."""
    folders = session.children_of([paths.BROKER_IDS, paths.TOPICS, paths.DELETIONS])
    singles = (paths.CONTROLLER, paths.CONTROLLER_EPOCH, paths.PRODUCER_IDS, paths.REASSIGNMENT, paths.ELECTION)
    nodes = read_known_to_all(session) | session.get_many([*singles, *_below(folders.items())])
    states = [
        paths.state(name, index)
        for name in topic_names(nodes)
        for index in range(len(znodes.read_assignment(name, nodes[paths.topic(name)]).partitions))
    ]
    return nodes | session.get_many(states)


def _below(folders: Iterable[tuple[str, list[str]]]) -> list[str]:
    return [f"{folder}/{name}" for folder, names in folders for name in names]


def with_topic_ids(
    session: Session, nodes: dict[str, Znode], check: Check, random_bytes: Callable[[int], bytes]
) -> dict[str, Znode]:
    """Topics of clusters that are older than topic ids get theirs now, as from Kafka's controllers."""
    for name in topic_names(nodes):
        topic = topic_of(name, nodes)
        if topic is not None and topic.id == ZERO_UUID:
            path = paths.topic(name)
            data = znodes.topic_json(replace(topic, id=random_uuid(random_bytes)))
            try:
                versions = session.make([SetData(path, data, nodes[path].version)], check=check)
            except Refused as refused:
                raise StaleImage(f"topic {name!r} was changed while it got its id: {refused}") from refused
            nodes[path] = nodes[path]._replace(data=data, version=versions[path])
    return nodes
