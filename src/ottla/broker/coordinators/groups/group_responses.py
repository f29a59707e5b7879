"""Answers that several parts of the group coordinator give, in the shape of the version that asked.

1. What an append fails with is said in the log's words; clients of a coordinator hear the coordinator's
   (`coordinator_error`).
2. `after_commit` answers once everything the shard has written so far is committed: a Write without records. What
   was not committed may be gone after a crash, and nobody may have seen it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.broker.coordinators.effects import Reply, Token, Write
from ottla.errors import (
    NONE,
    BrokerError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidFetchSize,
    KafkaStorageError,
    MessageTooLarge,
    NetworkException,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
    UnknownMemberId,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages.heartbeat import HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse
from ottla.protocol.schema import Message

_COORDINATOR_ERRORS: tuple[tuple[tuple[type[BrokerError], ...], type[BrokerError]], ...] = (
    ((UnknownTopicOrPartition, NotEnoughReplicas, RequestTimedOut), CoordinatorNotAvailable),
    ((NotLeaderOrFollower, KafkaStorageError), NotCoordinator),
    ((MessageTooLarge, RecordListTooLarge, InvalidFetchSize), UnknownServerError),
    # Checking a transaction may fail this way; the client must retry here, without looking for the coordinator.
    ((NetworkException,), CoordinatorLoadInProgress),
)


def coordinator_error(error: BrokerError) -> BrokerError:
    """The error of an append as the coordinator answers it to a client."""
    for causes, answer in _COORDINATOR_ERRORS:
        if isinstance(error, causes):
            return answer(error.detail)
    return error


def failing(token: Token, response: Callable[[BrokerError], Message]) -> Callable[[BrokerError], tuple[Reply, ...]]:
    """What a Write says when its append is refused: one answer, with the coordinator's word for the error."""
    return lambda error: (Reply(token, response(coordinator_error(error))),)


def after_commit(token: Token, answer: Message, on_failure: Callable[[BrokerError], Message]) -> Write:
    return Write((), (Reply(token, answer),), failing(token, on_failure))


def join_error(error: BrokerError, api_version: int, *, member_id: str = "") -> JoinGroupResponse:
    return join_answer(api_version, member_id=member_id, error_code=error.code)


def join_answer(
    api_version: int,
    *,
    member_id: str,
    error_code: int = NONE,
    generation: int = -1,
    protocol_type: str | None = None,
    protocol_name: str | None = None,
    leader: str = "",
    members: Sequence[JoinGroupResponseMember] = (),
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error_code,
        generation_id=generation,
        protocol_type=protocol_type,
        # Null came with version 7; before, no protocol was an empty name.
        protocol_name=(protocol_name or "") if api_version < 7 else (protocol_name or None),
        leader=leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=list(members),
    )


def sync_error(error: BrokerError) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error.code, assignment=b"")


def heartbeat_error(error: BrokerError) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error.code)


def leaving_members(request: LeaveGroupRequest, api_version: int) -> list[MemberIdentity]:
    """Who leaves: one member without a list before version 3."""
    return request.members if api_version >= 3 else [MemberIdentity(member_id=request.member_id)]


def leave_answer(members: list[MemberResponse], api_version: int) -> LeaveGroupResponse:
    if api_version >= 3:
        return LeaveGroupResponse(error_code=NONE, members=members)
    return LeaveGroupResponse(error_code=next((each.error_code for each in members if each.error_code), NONE))


def leave_error(error: BrokerError) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error.code)


def leave_unknown_members(request: LeaveGroupRequest, api_version: int) -> LeaveGroupResponse:
    """The group does not have them, because it does not exist or is not of that kind."""
    return leave_answer(
        [left(each, UnknownMemberId.code) for each in leaving_members(request, api_version)],
        api_version,
    )


def left(identity: MemberIdentity, error_code: int = NONE) -> MemberResponse:
    return MemberResponse(
        member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error_code
    )
