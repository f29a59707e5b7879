"""What AlterConfigs and IncrementalAlterConfigs do alike: plan, store, and answer for every resource."""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ottla.broker.requests.context import RequestContext
from ottla.broker.security.config_needs import ConfigNeeds
from ottla.cluster.config_layers import ConfigRules
from ottla.cluster.configs import ConfigPlan, answers_for
from ottla.cluster.image import ClusterImage
from ottla.cluster.plan import refusal
from ottla.errors import BrokerError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

R = TypeVar("R", bound="ConfigRequest")
A = TypeVar("A")


class ConfigResource(Protocol):
    """What a request names a resource with."""

    resource_type: int
    resource_name: str


class ConfigRequest(Protocol):
    """A request that changes settings."""

    resources: Any  # a list of ConfigResource, of a class that each request has for itself
    validate_only: bool


async def alter(
    broker: Broker,
    request: R,
    context: RequestContext,
    needs: ConfigNeeds,
    plan: Callable[[ClusterImage, R, ConfigRules], ConfigPlan],
    answer: Callable[..., A],
) -> list[A]:
    """`answer` makes the answer for one resource. What may not be changed, or cannot be stored, is said of each."""
    resources: list[ConfigResource] = request.resources
    allowed = [needs.is_met(broker, context, each.resource_type, each.resource_name) for each in resources]
    request.resources = list(compress(resources, allowed))
    refused = [each for each, is_allowed in zip(resources, allowed, strict=True) if not is_allowed]
    outcomes = [refusal(needs.refusal(context, each.resource_type)) for each in refused]
    answers = await _alter(broker, request, plan, answer) if request.resources else []
    return answers + answers_for(refused, outcomes, answer)


async def _alter(
    broker: Broker,
    request: R,
    plan: Callable[[ClusterImage, R, ConfigRules], ConfigPlan],
    answer: Callable[..., A],
) -> list[A]:
    try:
        planned = await broker.link.change(lambda image: plan(image, request, broker.config_rules))
    except BrokerError as error:
        return answers_for(request.resources, [refusal(error)] * len(request.resources), answer)
    broker.set_log_levels(planned.log_levels)
    return planned.answers
