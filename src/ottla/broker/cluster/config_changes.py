"""What AlterConfigs and IncrementalAlterConfigs do alike: plan, store, and answer for every resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.requests.answers import Later
from ottla.cluster.config_layers import ConfigRules
from ottla.cluster.configs import ConfigPlan, answers_for
from ottla.cluster.image import ClusterImage
from ottla.cluster.plan import refusal
from ottla.errors import BrokerError
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def alter(
    broker: Broker,
    request: Any,
    plan: Callable[[ClusterImage, Any, ConfigRules], ConfigPlan],
    response: Callable[..., Message],
    answer: Callable[..., Any],
) -> Later[Any]:
    """`response` makes the whole answer, `answer` that for one resource. What cannot be stored is told to each."""

    def respond(given: Any) -> Message:
        if isinstance(given, BrokerError):
            outcomes = [refusal(given)] * len(request.resources)
            return response(responses=answers_for(request.resources, outcomes, answer))
        broker.set_log_levels(given.log_levels)
        return response(responses=given.answers)

    return broker.change(lambda image: plan(image, request, broker.config_rules), respond)
