"""What confluent_kafka.admin refuses before it asks anybody: wrong types are TypeErrors, wrong values ValueErrors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ottla.compat.confluent_kafka.admin_values import OffsetSpec
from ottla.compat.confluent_kafka.messages import OFFSET_INVALID, TopicPartition
from ottla.compat.confluent_kafka.model import ConsumerGroupTopicPartitions, ElectionType, IsolationLevel
from ottla.compat.confluent_kafka.scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

T = TypeVar("T")


def all_of(kind: type[T], values: Any) -> list[T]:
    """A list of one kind of thing."""
    if not isinstance(values, list) or not all(isinstance(each, kind) for each in values):
        raise ValueError(f"Expected list of {kind!r}")
    return list(values)


def names(values: Any, what: str) -> list[str]:
    """Names, not one text."""
    if not isinstance(values, list) or not values:
        raise (ValueError if values == [] else TypeError)(f"Expected a non-empty list of {what}")
    for each in values:
        if not isinstance(each, str):
            raise TypeError(f"Expected {what} to be strings")
        if not each:
            raise ValueError(f"'{what}' cannot be empty")
    return values


def group_request(request: Any, *, offsets: bool) -> ConsumerGroupTopicPartitions:
    """The one group of a request about committed offsets; `offsets` when they are to be written."""
    if not isinstance(request, list):
        raise TypeError("request must be a list")
    if len(request) != 1:
        verb = "altering" if offsets else "listing"
        raise ValueError(f"Currently we support {verb} offsets for a single consumer group only")
    (found,) = request
    if not isinstance(found, ConsumerGroupTopicPartitions):
        raise TypeError("Expected list of 'ConsumerGroupTopicPartitions'")
    if not isinstance(found.group_id, str):
        raise TypeError("'group_id' must be a string")
    if not found.group_id:
        raise ValueError("'group_id' cannot be empty")
    if found.topic_partitions is None and not offsets:
        return found
    _check_partitions(found.topic_partitions, "topic_partitions")
    for each in found.topic_partitions or ():
        if offsets and each.offset < 0:
            raise ValueError("Element of 'topic_partitions' must not have negative value for 'offset' field")
        if not offsets and each.offset != OFFSET_INVALID:
            raise ValueError("Element of 'topic_partitions' must not have 'offset' value")
    return found


def _check_partitions(partitions: Any, what: str) -> None:
    if partitions is None:
        raise ValueError(f"'{what}' cannot be null")
    if not isinstance(partitions, list):
        raise TypeError(f"'{what}' must be a list")
    if not partitions:
        raise ValueError(f"'{what}' cannot be empty")
    for each in partitions:
        partition(each, f"Element of '{what}'")


def partition(found: Any, what: str) -> None:
    """A partition with a topic and a number."""
    if not isinstance(found, TopicPartition):
        raise TypeError(f"{what} must be of type TopicPartition")
    if not isinstance(found.topic, str):
        raise TypeError(f"{what} must have a string for its topic")
    if not found.topic:
        raise ValueError(f"{what} must not have 'topic' attribute as Empty")
    if found.partition < 0:
        raise ValueError(f"{what} must not have negative 'partition' value")


def places(wanted: Any, isolation_level: Any) -> None:
    """Partitions with the places that are asked for."""
    if not isinstance(wanted, dict):
        raise TypeError("Expected topic_partition_offsets to be dict of [TopicPartitions,OffsetSpec]")
    for each, place in wanted.items():
        partition(each, "partition")
        if not isinstance(place, OffsetSpec):
            raise TypeError("Value must be a OffsetSpec")
    if not isinstance(isolation_level, IsolationLevel):
        raise TypeError("isolation_level argument should be an IsolationLevel")


def records(wanted: Any) -> None:
    """Partitions whose records are deleted up to an offset."""
    if not isinstance(wanted, list):
        raise TypeError(f"Expected Request to be a list, got '{type(wanted).__name__}' ")
    for each in wanted:
        partition(each, "Element of the request list")


def election(election_type: Any, partitions: Any) -> None:
    """Which election, for which partitions."""
    if not isinstance(election_type, ElectionType):
        raise TypeError("Expected 'election_type' to be of type 'ElectionType'")
    if partitions is None:
        return
    if not isinstance(partitions, list):
        raise TypeError(f"Expected 'partitions' to be a list, got '{type(partitions).__name__}'")
    for each in partitions:
        partition(each, "Element of the 'partitions' list")


def users(wanted: Any) -> None:
    """Users by name, or None for all."""
    if wanted is None:
        return
    if not isinstance(wanted, list):
        raise TypeError("Expected input to be list of String")
    for each in wanted:
        _check_user(each)


def _check_user(user: Any) -> None:
    if not isinstance(user, str):
        raise TypeError("'user' must be a string")
    if not user:
        raise ValueError("'user' cannot be empty")


def alterations(wanted: Any) -> Sequence[UserScramCredentialAlteration]:
    """Passwords to be written or deleted."""
    if not isinstance(wanted, list):
        raise TypeError("Expected input to be list")
    if not wanted:
        raise ValueError("Expected at least one alteration")
    for each in wanted:
        if not isinstance(each, UserScramCredentialUpsertion | UserScramCredentialDeletion):
            raise TypeError("Expected each element of list to be subclass of UserScramCredentialAlteration")
        _check_user(each.user)
        if isinstance(each, UserScramCredentialUpsertion):
            _check_upsertion(each)
        elif not isinstance(each.mechanism, ScramMechanism):
            raise TypeError("Expected the mechanism to be ScramMechanism Type")
    return wanted


def _check_upsertion(each: UserScramCredentialUpsertion) -> None:
    if not isinstance(each.password, bytes):
        raise TypeError("'password' must be bytes")
    if not each.password:
        raise ValueError("'password' cannot be empty")
    if each.salt is not None and not isinstance(each.salt, bytes):
        raise TypeError("'salt' must be bytes")
    if each.salt is not None and not each.salt:
        raise ValueError("'salt' can be None but cannot be empty")
    if not isinstance(each.scram_credential_info, ScramCredentialInfo):
        raise TypeError("Expected credential_info to be ScramCredentialInfo Type")
    if each.scram_credential_info.iterations < 1:
        raise ValueError("Iterations should be positive")
    if not isinstance(each.scram_credential_info.mechanism, ScramMechanism):
        raise TypeError("Expected the mechanism to be ScramMechanism Type")
