"""What clients ask and the controllers decide: passed on to the active controller, whose answer the client gets.

1. `PASSED_ON` are Kafka's: every API that its own table says is forwarded by brokers. Whoever is asked (the wire, the
   console) finds this instead of the handler (requests/served.py).
2. A controller that changed, or cannot be reached, is looked for until request.timeout.ms has passed.
3. When the controller has answered, the answer waits, bounded, until our own image shows what was changed (visible.py).
4. Only we know how a client came: who may not ask for tokens on his connection, or not for somebody else's, is refused
   here, as in Kafka.
5. Levels of loggers are this process's own affair, so those are set here. Settings of this broker, or of all brokers,
   are tried here first: the controllers do not know which values a broker can take.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, cast

from ottla.broker.cluster.config_changes import ConfigRequest, ConfigResource
from ottla.broker.cluster.kraft.envelopes import unwrapped, wrapped
from ottla.broker.cluster.visible import shows_answer, wait_until
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import awaited
from ottla.cluster.model import ResourceType
from ottla.errors import NotController, OttlaError, RequestTimedOut, UnknownServerError, UnsupportedVersion
from ottla.protocol.api import APIS_BY_NAME, api_of
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.envelope import EnvelopeResponse
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.cluster.kraft.controllers import Controllers

log = logging.getLogger(__name__)

RETRY_MS: Final = 50.0
CONFIGS: Final = ("AlterConfigs", "IncrementalAlterConfigs")
TOKENS: Final = ("CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken")
PASSED_ON: Final = frozenset(
    APIS_BY_NAME[name].key
    for name in (
        *CONFIGS,
        *TOKENS,
        "AddRaftVoter",
        "AlterClientQuotas",
        "AlterPartitionReassignments",
        "AlterUserScramCredentials",
        "CreateAcls",
        "CreatePartitions",
        "CreateTopics",
        "DeleteAcls",
        "DeleteTopics",
        "DescribeQuorum",
        "ElectLeaders",
        "ListPartitionReassignments",
        "RemoveRaftVoter",
        "UnregisterBroker",
        "UpdateFeatures",
    )
)
ENVELOPE: Final = APIS_BY_NAME["Envelope"].key


class ConfigAnswer(ConfigResource, Protocol):
    """What became of one resource."""

    error_code: int


class ConfigAnswers(Protocol):
    """The answer to a request that changes settings."""

    responses: list[ConfigAnswer]


class PassingOn:
    """See the module. Belongs to the broker's loop."""

    def __init__(self, broker: Broker, controllers: Controllers, *, limit_ms: float) -> None:
        self._broker = broker
        self._controllers = controllers
        self._limit_ms = limit_ms

    async def answer(self, request: Message, context: RequestContext) -> Message:
        """What the client gets."""
        name = api_of(request).name
        if name in CONFIGS:
            return await self._alter_configs(cast(ConfigRequest, request), context)
        if name in TOKENS:
            self._check_token_request(request, context)
        return await self.ask(request, context)

    def _check_token_request(self, request: Message, context: RequestContext) -> None:
        self._broker.tokens.check_request(context)
        if isinstance(request, CreateDelegationTokenRequest):
            from ottla.broker.handlers.access.create_delegation_token import check  # few brokers have tokens

            check(self._broker, request, context)

    async def ask(self, request: Message, context: RequestContext) -> Message:
        """The active controller's answer, in an envelope."""
        envelope = wrapped(request, context)
        clock = self._broker.clock
        end_ms = clock.monotonic_ms() + self._limit_ms
        reason: OttlaError = NotController("no controller is known")
        while (left_ms := end_ms - clock.monotonic_ms()) > 0:
            try:
                response = await self._controllers.ask(envelope, left_ms)
                assert isinstance(response, EnvelopeResponse)
                answer = unwrapped(request, context.api_version, response)
            except (UnknownServerError, UnsupportedVersion):
                raise
            except OttlaError as error:
                reason = error
                await clock.sleep(min(RETRY_MS, left_ms))
                continue
            await wait_until(partial(self._shows, request, answer), clock)
            return answer
        raise RequestTimedOut(f"{api_of(request)} could not be passed on to the active controller: {reason}")

    def _shows(self, request: Message, answer: Message) -> bool:
        return shows_answer(self._broker.image, request, answer)

    # --- settings -----------------------------------------------------------------------------------------------------

    async def _alter_configs(self, request: ConfigRequest, context: RequestContext) -> Message:
        resources: Sequence[ConfigResource] = request.resources
        answers: dict[tuple[int, str], ConfigAnswer] = {}
        loggers = [each for each in resources if each.resource_type == ResourceType.BROKER_LOGGER]
        for answered in await self._here(_about(request, loggers), context) if loggers else ():
            answers[_name(answered)] = answered
        if ours := [each for each in resources if self._is_about_us(each)]:
            for answered in await self._here(_about(request, ours, validate_only=True), context):
                if answered.error_code:
                    answers[_name(answered)] = answered
        rest = [each for each in resources if _name(each) not in answers]
        if rest or not resources:
            answer = await self.ask(cast(Message, _about(request, rest)), context)
        else:
            make: Callable[..., Message] = api_of(cast(Message, request)).response
            answer = make(responses=[])
        whole = cast(ConfigAnswers, answer)
        answers |= {_name(each): each for each in whole.responses}
        whole.responses = [answers[_name(each)] for each in resources if _name(each) in answers]
        return answer

    def _is_about_us(self, resource: ConfigResource) -> bool:
        return resource.resource_type == ResourceType.BROKER and resource.resource_name in ("", str(self._broker.id))

    async def _here(self, request: ConfigRequest, context: RequestContext) -> Sequence[ConfigAnswer]:
        """What this broker's own handler says."""
        from ottla.broker.requests.served import handler_of

        handler = handler_of(api_of(cast(Message, request)))
        answer: ConfigAnswers = await awaited(handler.handle(self._broker, request, context))
        return answer.responses


def _name(resource: ConfigResource) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _about(request: ConfigRequest, resources: list[ConfigResource], *, validate_only: bool = False) -> ConfigRequest:
    """The same request about these of its resources."""
    part = copy(request)
    part.resources = resources
    part.validate_only |= validate_only
    return part
