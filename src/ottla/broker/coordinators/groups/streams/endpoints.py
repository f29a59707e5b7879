"""Where members find each other's state: the partitions that each application endpoint reads and stands by for.

A member that offers an endpoint (application.server) is told to all others, so that a question about a key can be sent
to the member that has it. They are told only when something changed since: the epoch of this information goes with
every heartbeat. It lives as long as this coordinator; another one begins anew and tells everybody.
"""

from __future__ import annotations

from ottla.broker.coordinators.effects import ClusterView
from ottla.broker.coordinators.groups.streams.group import StreamsGroup
from ottla.broker.coordinators.groups.streams.member import StreamsMember
from ottla.broker.coordinators.groups.streams.tasks import Partitions
from ottla.broker.coordinators.groups.streams.topology import Topology, read_topics
from ottla.protocol.messages.streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition


def partitions_by_endpoint(group: StreamsGroup, cluster: ClusterView) -> list[EndpointToPartitions]:
    """Of all members with an endpoint, by the name of the member."""
    topology = group.topology
    if topology is None:
        return []
    members = [member for _, member in sorted(group.members.items())]
    return [_entry(member, topology, cluster) for member in members if member.endpoint is not None]


def _entry(member: StreamsMember, topology: Topology, cluster: ClusterView) -> EndpointToPartitions:
    endpoint, tasks = member.endpoint, member.assigned.tasks
    assert endpoint is not None
    return EndpointToPartitions(
        user_endpoint=Endpoint(host=endpoint.host, port=endpoint.port),
        active_partitions=_partitions(tasks.active, topology, cluster),
        standby_partitions=_partitions(tasks.standby, topology, cluster),
    )


def _partitions(tasks: Partitions, topology: Topology, cluster: ClusterView) -> list[TopicPartition]:
    """A topic with fewer partitions than its subtopology has tasks has none for the higher ones."""
    found = []
    for name, numbers in sorted(tasks.items()):
        subtopology = topology.subtopology(name)
        for topic in sorted(set(read_topics(subtopology))) if subtopology is not None else ():
            count = cluster.partition_count(topic) or 0
            partitions = sorted(each for each in numbers if each < count)
            if partitions:
                found.append(TopicPartition(topic=topic, partitions=partitions))
    return found
