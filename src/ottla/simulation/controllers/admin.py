"""What administrators ask of the simulation's controllers: the plans of cluster/, and what becomes due with them.

A topic that is deleted goes at once: brokers read it in the log and remove what they have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from ottla.cluster.changes import Change
from ottla.cluster.configs import incremental_alter_configs_plan
from ottla.cluster.controller.events import ControllerEvent, ReassignmentsDue, SettingsChanged
from ottla.cluster.controller.settings_changes import affect_elections, without_eligible
from ottla.cluster.elections import elect_leaders
from ottla.cluster.image import ClusterImage
from ottla.cluster.partitions import create_partitions
from ottla.cluster.reassignments import alter_partition_reassignments, list_partition_reassignments
from ottla.cluster.topics import TopicRules, create_topics, delete_topics
from ottla.errors import NONE
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.protocol.schema import Message
from ottla.values import TopicPartition


class Planned(NamedTuple):
    """What to append, what to answer, and what to decide about next."""

    changes: tuple[Change, ...]
    answer: Message
    due: tuple[ControllerEvent, ...] = ()


class Asked(NamedTuple):
    """What plans need beside the request."""

    image: ClusterImage
    rules: TopicRules
    random: Random
    version: int


def planned(request: Message, asked: Asked) -> Planned:
    """What follows from a request."""
    return PLANS[type(request)](request, asked)


def _create_topics(request: CreateTopicsRequest, asked: Asked) -> Planned:
    plan = create_topics(asked.image, request, asked.rules, asked.random)
    return Planned(plan.changes, CreateTopicsResponse(topics=plan.answers))


def _delete_topics(request: DeleteTopicsRequest, asked: Asked) -> Planned:
    plan = delete_topics(asked.image, request, asked.rules, version=asked.version)
    return Planned(plan.changes, DeleteTopicsResponse(responses=plan.answers))


def _create_partitions(request: CreatePartitionsRequest, asked: Asked) -> Planned:
    plan = create_partitions(asked.image, request, asked.rules, asked.random)
    return Planned(plan.changes, CreatePartitionsResponse(results=plan.answers))


def _move(request: AlterPartitionReassignmentsRequest, asked: Asked) -> Planned:
    plan = alter_partition_reassignments(asked.image, request)
    names = (TopicPartition(topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    answer = AlterPartitionReassignmentsResponse(error_code=NONE, error_message=None, responses=plan.answers)
    return Planned(plan.changes, answer, (ReassignmentsDue(tuple(names)),))


def _list_moves(request: ListPartitionReassignmentsRequest, asked: Asked) -> Planned:
    topics = list_partition_reassignments(asked.image, request)
    return Planned((), ListPartitionReassignmentsResponse(error_code=NONE, topics=topics))


def _elect(request: ElectLeadersRequest, asked: Asked) -> Planned:
    plan = elect_leaders(asked.image, request)
    return Planned(plan.changes, ElectLeadersResponse(error_code=NONE, replica_election_results=plan.answers))


def _alter_configs(request: IncrementalAlterConfigsRequest, asked: Asked) -> Planned:
    plan = incremental_alter_configs_plan(asked.image, request, asked.rules.configs)
    changes = (*without_eligible(asked.image, plan.changes), *plan.changes)
    due = (SettingsChanged(tuple(plan.changes)),) if affect_elections(plan.changes) else ()
    return Planned(changes, IncrementalAlterConfigsResponse(responses=plan.answers), due)


PLANS: Final[Mapping[type[Message], Callable[[Any, Asked], Planned]]] = {
    CreateTopicsRequest: _create_topics,
    DeleteTopicsRequest: _delete_topics,
    CreatePartitionsRequest: _create_partitions,
    AlterPartitionReassignmentsRequest: _move,
    ListPartitionReassignmentsRequest: _list_moves,
    ElectLeadersRequest: _elect,
    IncrementalAlterConfigsRequest: _alter_configs,
}
