"""Policies of whoever runs a broker from Python: what may be created and altered, beyond who may do it.

    def small_topics(topic: NewTopic) -> None:
        if (topic.partitions or 0) > 100:
            raise PolicyViolation("at most 100 partitions")

    KafkaBroker(policies=Policies(create_topic=small_topics))

1. `create_topic` sees every topic that is about to be created, also one that a client creates by asking for it;
   `alter_config` sees which resource gets which settings, None for those that are removed. Both are Kafka's
   create.topic.policy and alter.config.policy, which name Java classes.
2. PolicyViolation refuses, with its words for the client. Anything else that is raised is a fault of the policy: it
   refuses, too (UNKNOWN_SERVER_ERROR), and is logged.
3. In a cluster the controller asks about topics, and the broker that was asked about settings: every broker needs them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, ParamSpec

from ottla.cluster.model import ConfigResource
from ottla.cluster.topics import NewTopic
from ottla.errors import BrokerError, UnknownServerError
from ottla.light_tuples import NamedTuple

log = logging.getLogger(__name__)

A = ParamSpec("A")


class Policies(NamedTuple):
    """See the module; None asks nobody."""

    create_topic: Callable[[NewTopic], None] | None = None
    alter_config: Callable[[ConfigResource, Mapping[str, str | None]], None] | None = None


NO_POLICIES: Final = Policies()


def refusing_faults(policy: Callable[A, None] | None) -> Callable[A, None] | None:
    """The same policy, whose faults refuse."""
    if policy is None:
        return None

    def asked(*arguments: A.args, **named: A.kwargs) -> None:
        try:
            policy(*arguments, **named)
        except BrokerError:
            raise
        except Exception as fault:
            log.exception("a policy failed, so what it was asked about is refused")
            raise UnknownServerError("a policy of this broker failed") from fault

    return asked
