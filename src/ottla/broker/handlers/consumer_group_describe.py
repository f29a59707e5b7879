"""ConsumerGroupDescribe: state and members of consumer groups, each asked at its own shard. Version 1 tells which
protocol a member speaks. A group that is named twice is told once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.groups.consumer.describe import describe_error
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.answers import Later
from ottla.broker.requests.long_work import Steps, ask_each
from ottla.broker.security.operations import GROUP_OPERATIONS
from ottla.errors import NONE, BrokerError, UnsupportedVersion
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(
    broker: Broker, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse | Later[Any]:
    if "consumer" not in broker.settings.group_coordinator_rebalance_protocols:
        error = UnsupportedVersion("group.coordinator.rebalance.protocols does not name consumer")
        return ConsumerGroupDescribeResponse(groups=[describe_error(each, error) for each in request.group_ids])
    return broker.long_work.do(_steps(broker, request, context), context.connection)


def _steps(broker: Broker, request: ConsumerGroupDescribeRequest, context: RequestContext) -> Steps[Later[Any]]:
    def joined(answers: list[ConsumerGroupDescribeResponse]) -> ConsumerGroupDescribeResponse:
        groups = [group for answer in answers for group in answer.groups]
        for group in groups:
            if request.include_authorized_operations and group.error_code == NONE:
                group.authorized_operations = GROUP_OPERATIONS
        return ConsumerGroupDescribeResponse(groups=groups)

    return ask_each((_one(broker, each, context) for each in dict.fromkeys(request.group_ids)), joined)


def _one(broker: Broker, group_id: str, context: RequestContext) -> Later[Any]:
    single = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
    try:
        return broker.groups.ask(group_id, GroupShard.describe_consumer_groups, single, context)
    except BrokerError as error:
        return Later.given(ConsumerGroupDescribeResponse(groups=[describe_error(group_id, error)]))
