"""What AlterConfigs and IncrementalAlterConfigs do alike: plan, store, and answer for every resource."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from ottla.cluster.config_layers import ConfigRules
from ottla.cluster.configs import ConfigPlan, answers_for
from ottla.cluster.image import ClusterImage
from ottla.cluster.plan import refusal
from ottla.errors import BrokerError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

R = TypeVar("R")
A = TypeVar("A")


class ConfigResource(Protocol):
    """What a request names a resource with."""

    resource_type: int
    resource_name: str


async def alter(
    broker: Broker,
    resources: Sequence[ConfigResource],
    plan: Callable[[ClusterImage, R, ConfigRules], ConfigPlan],
    request: R,
    answer: Callable[..., A],
) -> list[A]:
    """`answer` makes the answer for one resource. What cannot be stored is said of each."""
    try:
        planned = await broker.link.change(lambda image: plan(image, request, broker.config_rules))
    except BrokerError as error:
        return answers_for(resources, [refusal(error)] * len(resources), answer)
    broker.set_log_levels(planned.log_levels)
    return planned.answers
