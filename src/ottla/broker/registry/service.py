"""The registry of a broker: runs the operations on what the log says, here or on the broker that leads _schemas.

    value = await broker.schema_registry.answer(operation, request)        RegistryError says what went wrong

1. One broker answers: the leader of _schemas-0. Every other passes the request on to it over the connection between
   brokers (forwarding.py), so any address of the cluster will do, and everybody reads his own writes.
2. Changes are made one at a time, each decided on everything that is committed, and answered when it is committed
   itself.
3. The topic is made with the first change; until then the registry is empty.
4. When the leader changes, a request that has changed nothing yet waits for the new one, for request.timeout.ms at
   most.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ottla.broker.registry.errors import RegistryError, store_failed
from ottla.broker.registry.forwarding import ask_leader
from ottla.broker.registry.log import PARTITION, SchemaLog
from ottla.broker.registry.operations import Knowledge, Operation
from ottla.broker.registry.records import TOPIC
from ottla.broker.registry.requests import Json, Outcome, Request
from ottla.broker.registry.schemas import Schemas, Steps
from ottla.broker.registry.state import RegistryState
from ottla.broker.requests.pacing import Pace
from ottla.errors import BrokerError, InvalidReplicationFactor, NotLeaderOrFollower

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.registry.readers import SchemaReaders

RETRY_MS: Final = 50.0


class SchemaRegistry:
    """See the module. Belongs to the broker's loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._log = SchemaLog(broker)
        self._writing = asyncio.Lock()
        self._empty = RegistryState()
        self._readers: SchemaReaders | None = None

    @property
    def readers(self) -> SchemaReaders:
        """What reads records by the schemas that they name; made when somebody looks at records."""
        if self._readers is None:
            from ottla.broker.registry.readers import SchemaReaders

            self._readers = SchemaReaders(self._broker, self)
        return self._readers

    async def answer(self, operation: Operation, request: Request) -> Json:
        """What the operation answers; passed on where another broker leads."""
        clock = self._broker.clock
        end_ms = clock.monotonic_ms() + self._broker.settings.request_timeout_ms
        while True:
            try:
                return await self._answer_once(operation, request)
            except NotLeaderOrFollower as error:
                if clock.monotonic_ms() >= end_ms:
                    raise store_failed(f"{PARTITION} has no leader: {error}") from None
            except BrokerError as error:
                raise store_failed(str(error)) from None
            await clock.sleep(RETRY_MS)

    async def _answer_once(self, operation: Operation, request: Request) -> Json:
        broker = self._broker
        if broker.image.topic(TOPIC) is None:
            if not operation.changes:
                return (await self._run(operation, Knowledge(self._empty, Schemas(lambda: self._empty)), request)).value
            await self._make_topic()
        if broker.link.leads_elsewhere(*PARTITION):
            return await ask_leader(broker, operation, request)
        return await self.answer_here(operation, request)

    async def answer_here(self, operation: Operation, request: Request) -> Json:
        """The same on the leader; raises NotLeaderOrFollower when this is not it."""
        self._log.led_partition()
        if not operation.changes:
            with self._broker.pacing.turn() as pace:
                await self._log.catch_up(pace)
            return (await self._run(operation, self._knowledge, request)).value
        async with self._writing:
            with self._broker.pacing.turn() as pace:
                await self._log.catch_up(pace)
            outcome = await self._run(operation, self._knowledge, request)
            if outcome.records:
                await self._log.append(outcome.records)
                if operation.method == "DELETE":
                    self._log.schemas.forget()
        return outcome.value

    @property
    def _knowledge(self) -> Knowledge:
        return Knowledge(self._log.state, self._log.schemas)

    async def _run(self, operation: Operation, known: Knowledge, request: Request) -> Outcome:
        with self._broker.pacing.turn() as pace:
            return await self._run_steps(operation.run(known, request), pace)

    async def _run_steps(self, steps: Steps[Outcome], pace: Pace) -> Outcome:
        """To the end: with pauses, and with what takes long computed apart."""
        computed: object = None
        error: Exception | None = None
        while True:
            try:
                work = steps.send(computed) if error is None else steps.throw(error)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
            computed, error = None, None
            if work is None:
                await pace.step()
                continue
            pace.release()
            try:
                computed = await self._broker.pacing.apart(work)
            except Exception as problem:
                error = problem

    async def _make_topic(self) -> None:
        from ottla.broker.cluster.internal_topics import internal_topic_request

        broker = self._broker
        brokers = len(broker.image.active_brokers())
        request = internal_topic_request(TOPIC, broker.settings, is_alone=broker.link.is_alone, brokers=brokers)
        try:
            await broker.link.create_topic(request)
        except InvalidReplicationFactor as error:
            raise RegistryError(50001, f"{TOPIC} cannot be made yet: {error}") from None
        except BrokerError as error:
            if broker.image.topic(TOPIC) is None and not error.retriable and error.code != 36:
                raise store_failed(f"{TOPIC} cannot be made: {error}") from None

    async def has_id(self, schema_id: int) -> bool:
        """Whether there is a schema with this id."""
        from ottla.broker.registry.operations import BY_NAME

        try:
            await self.answer(BY_NAME["GET /schemas/ids/{id}"], Request({"id": str(schema_id)}))
        except RegistryError as error:
            if error.code == 40403:
                return False
            raise
        return True
