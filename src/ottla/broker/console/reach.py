"""Asking whoever knows: this broker with the rights of the caller, or another one of the cluster.

1. What this broker can answer, it answers by the handler of the wire, which checks the caller's rights.
2. Another broker would check this broker's rights and not the caller's. So the need is checked here, against the same
   rules, before anybody else is asked.
3. A broker that does not answer within ASK_LIMIT_MS is left out of lists; the answer says which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from ottla.broker.coordinators.placement import partition_for_name
from ottla.broker.http.call import Call
from ottla.broker.security.access import CLUSTER
from ottla.broker.security.needs import Need
from ottla.cluster.topic_names import GROUP_METADATA, TRANSACTION_STATE
from ottla.errors import GroupIdNotFound, OttlaError, RequestTimedOut, TransactionalIdNotFound
from ottla.light_tuples import NamedTuple
from ottla.protocol.access import AclResource
from ottla.protocol.schema import Message

A = TypeVar("A", bound=Message)
M = TypeVar("M", bound=Message)

ASK_LIMIT_MS: Final = 3_000


class Answers(NamedTuple):
    """What brokers answered, by their ids; and those that did not."""

    found: dict[int, Message]
    missing: list[int]


async def ask_leader(call: Call, topic: str, index: int, request: Message, answer: type[A], need: Need) -> A:
    """Ask the broker that leads a partition. `need` is what the caller must meet, on the topic or the cluster."""
    if not call.broker.link.leads_elsewhere(topic, index):
        return await call.ask(request, answer)
    call.check(need, topic if need.resource is AclResource.TOPIC else CLUSTER)
    found = await within(call, call.broker.link.ask_leader(topic, index, request))
    assert isinstance(found, answer)
    return found


async def ask_coordinator(call: Call, topic: str, name: str, request: Message, answer: type[A], need: Need) -> A:
    """Ask the coordinator of a group or of a transactional id. `need` is what the caller must meet on that name."""
    count = call.broker.image.partition_count(topic)
    if count is None:
        call.check(need, name)
        raise _NOT_THERE[topic](f"{name} is not there: nobody has used {topic} yet")
    index = partition_for_name(name, count)
    if not call.broker.link.leads_elsewhere(topic, index):
        return await call.ask(request, answer)
    call.check(need, name)
    found = await within(call, call.broker.link.ask_leader(topic, index, request))
    assert isinstance(found, answer)
    return found


_NOT_THERE: Final = {GROUP_METADATA: GroupIdNotFound, TRANSACTION_STATE: TransactionalIdNotFound}


async def ask_everybody(call: Call, request: Message, answer: type[Message]) -> Answers:
    """Ask all brokers; what the others say is to be cut to what the caller may see."""
    broker = call.broker
    others = [each.id for each in broker.image.active_brokers() if each.id != broker.id]
    asked = [_or_none(within(call, broker.link.ask_broker(each, request))) for each in others]
    theirs = asyncio.gather(*asked)
    found: dict[int, Message] = {broker.id: await call.ask(request, answer)}
    found.update({each: said for each, said in zip(others, await theirs, strict=True) if said is not None})
    return Answers(found, [each for each in others if each not in found])


async def within(call: Call, asking: Awaitable[M]) -> M:
    """The answer, while somebody waits for it."""
    try:
        async with call.broker.clock.timeout(ASK_LIMIT_MS):
            return await asking
    except TimeoutError:
        raise RequestTimedOut("another broker did not answer in time") from None


async def _or_none(asking: Awaitable[Message]) -> Message | None:
    try:
        return await asking
    except OttlaError:
        return None
