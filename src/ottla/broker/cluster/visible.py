"""A client that changed the cluster asks this broker for it next, and should see the change.

A view follows what the controller says a moment after the change is made. So the answer to a change waits, bounded,
until the view of the broker that answers shows the change: a topic that was created is there, one that was deleted is
not, partitions that were added are counted. Plain functions, and the wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ottla.clock import Clock
from ottla.cluster.changes import AddPartitions, Change, CreateTopic, RemoveTopic
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ConfigResource, ResourceType, Topic
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.protocol.schema import Message

FIRST_PAUSE_MS: Final = 5.0
LONGEST_PAUSE_MS: Final = 40.0
LIMIT_MS: Final = 2_000.0
SET, DELETE = 0, 1
"""What IncrementalAlterConfigs does with a setting."""


async def wait_until(is_visible: Callable[[], bool], clock: Clock) -> None:
    """Until it is, at most LIMIT_MS: a change that cannot be seen so soon is a change all the same."""
    end_ms, pause_ms = clock.monotonic_ms() + LIMIT_MS, FIRST_PAUSE_MS
    while not is_visible() and clock.monotonic_ms() < end_ms:
        await clock.sleep(pause_ms)
        pause_ms = min(pause_ms * 1.5, LONGEST_PAUSE_MS)


def shows_changes(view: ClusterImage, truth: ClusterImage, changes: Sequence[Change]) -> bool:
    """Whether a view has what these changes made. `truth` is the controller's: a topic that is being deleted leaves the
    view first, and only when it has left the truth too, its name is free for another."""
    return all(_shows(view, truth, each) for each in changes)


def _shows(view: ClusterImage, truth: ClusterImage, change: Change) -> bool:
    match change:
        case CreateTopic(topic):
            return view.topic_by_id(topic.id) is not None
        case RemoveTopic(topic_id):
            return view.topic_by_id(topic_id) is None and truth.topic_by_id(topic_id) is None
        case AddPartitions(topic_id):
            return _count(view.topic_by_id(topic_id)) >= _count(truth.topic_by_id(topic_id))
    return True


def shows_answer(view: ClusterImage, request: Message, response: Message) -> bool:
    """The same, by a request and what the controller answered to it."""
    match response:
        case CreateTopicsResponse():
            assert isinstance(request, CreateTopicsRequest)
            made = [each.name for each in response.topics if not each.error_code]
            return request.validate_only or all(view.topic(name) is not None for name in made)
        case DeleteTopicsResponse():
            return not any(_is_there(view, each) for each in response.responses if not each.error_code)
        case CreatePartitionsResponse():
            assert isinstance(request, CreatePartitionsRequest)
            made = [each.name for each in response.results if not each.error_code]
            wanted = {each.name: each.count for each in request.topics if each.name in made}
            return request.validate_only or all(_count(view.topic(name)) >= count for name, count in wanted.items())
        case IncrementalAlterConfigsResponse():
            assert isinstance(request, IncrementalAlterConfigsRequest)
            refused = {(each.resource_type, each.resource_name) for each in response.responses if each.error_code}
            return request.validate_only or all(
                _shows_settings(view, each)
                for each in request.resources
                if (each.resource_type, each.resource_name) not in refused
            )
    return True


def _shows_settings(view: ClusterImage, altered: AlterConfigsResource) -> bool:
    """Whether what was set is there, and what was deleted is not; levels of loggers are in no image."""
    if altered.resource_type == ResourceType.BROKER_LOGGER:
        return True
    known = view.config(ConfigResource(ResourceType(altered.resource_type), altered.resource_name))
    wanted = {each.name: each.value for each in altered.configs if each.config_operation == SET}
    gone = [each.name for each in altered.configs if each.config_operation == DELETE]
    return all(known.get(name) == value for name, value in wanted.items()) and not any(map(known.__contains__, gone))


def _is_there(view: ClusterImage, result: DeletableTopicResult) -> bool:
    named = None if result.name is None else view.topic(result.name)
    return named is not None or view.topic_by_id(result.topic_id) is not None


def _count(topic: Topic | None) -> int:
    return 0 if topic is None else len(topic.partitions)
