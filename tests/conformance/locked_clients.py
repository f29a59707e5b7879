"""The Python clients of the field, and ours, with one face: get in as a user, write a topic, read it in a group.

    client = CLIENTS["aiokafka"](broker.access("OAUTHBEARER"))
    client.write("olga.clicks", values)             # Refused when the user may not
    client.read("olga.clicks", len(values))

Every client is used as its own documentation says, with its own names of settings.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import aiokafka
import aiokafka.abc
import aiokafka.errors
import aiokafka.helpers
import confluent_kafka
import kafka
import kafka.errors
import kafka.net.sasl.oauth
from tests.conformance.locked_broker import TOKEN_LIFE_S, Access
from tests.patience import HANG_S

import ottla
import ottla.aio
from ottla.clock import SystemClock
from ottla.errors import TopicAuthorizationFailed


class Refused(Exception):
    """The user may not touch the topic, and the client says so."""


class Client(Protocol):
    """One library, logged in as one user."""

    def write(self, topic: str, values: Sequence[bytes]) -> None: ...
    def read(self, topic: str, count: int) -> list[bytes]: ...


# --- ours -----------------------------------------------------------------------------------------------------------


class Ottla:
    def __init__(self, access: Access) -> None:
        self._settings = access.ours()
        self._group = {"group_id": access.group, "auto_offset_reset": "earliest"}

    def write(self, topic: str, values: Sequence[bytes]) -> None:
        with ottla.Producer(**self._settings) as producer:
            try:
                for sent in [producer.send(topic, value) for value in values]:
                    sent.result(HANG_S)
            except TopicAuthorizationFailed as error:
                raise Refused(str(error)) from None

    def read(self, topic: str, count: int) -> list[bytes]:
        found: list[bytes] = []
        with ottla.Consumer(**self._settings, **self._group) as consumer:
            consumer.subscribe([topic])
            try:
                while len(found) < count:
                    found += [bytes(record.value) for record in consumer.poll(HANG_S)]
            except TopicAuthorizationFailed as error:
                raise Refused(str(error)) from None
        return found


class OttlaAio:
    def __init__(self, access: Access) -> None:
        self._settings = access.ours()
        self._group = {"group_id": access.group, "auto_offset_reset": "earliest"}

    def write(self, topic: str, values: Sequence[bytes]) -> None:
        async def run() -> None:
            async with ottla.aio.Producer(**self._settings) as producer:
                await asyncio.gather(*[await producer.send(topic, value) for value in values])

        self._run(run())

    def read(self, topic: str, count: int) -> list[bytes]:
        async def run() -> list[bytes]:
            found: list[bytes] = []
            async with ottla.aio.Consumer(**self._settings, **self._group) as consumer:
                await consumer.subscribe([topic])
                while len(found) < count:
                    found += [bytes(record.value) for record in await consumer.poll(HANG_S)]
            return found

        return self._run(run())

    def _run(self, work: Any) -> Any:
        try:
            return asyncio.run(work)
        except TopicAuthorizationFailed as error:
            raise Refused(str(error)) from None


# --- confluent-kafka ------------------------------------------------------------------------------------------------


class Confluent:
    def __init__(self, access: Access) -> None:
        self._settings: dict[str, Any] = {
            "bootstrap.servers": access.servers,
            "security.protocol": access.protocol,
            "ssl.ca.location": str(access.ca),
            "logger": logging.getLogger("silent"),
        }
        self._group = {"group.id": access.group, "auto.offset.reset": "earliest"}
        if access.store is not None:
            self._settings |= {"ssl.certificate.location": str(access.store), "ssl.key.location": str(access.store)}
            return
        self._settings["sasl.mechanism"] = access.login
        if access.login == "OAUTHBEARER":
            self._settings["oauth_cb"] = lambda _: (access.token(), SystemClock().now_ms() / 1000 + TOKEN_LIFE_S)
        elif access.login != "GSSAPI":
            self._settings |= {"sasl.username": access.user, "sasl.password": access.password}

    def write(self, topic: str, values: Sequence[bytes]) -> None:
        errors: list[Any] = []
        producer = confluent_kafka.Producer(self._settings)
        for value in values:
            producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(HANG_S) == 0
        for error in filter(None, errors):
            self._raise(error)

    def read(self, topic: str, count: int) -> list[bytes]:
        found: list[bytes] = []
        consumer = confluent_kafka.Consumer({**self._settings, **self._group})
        try:
            consumer.subscribe([topic])
            while len(found) < count:
                message = consumer.poll(HANG_S)
                assert message is not None, "nothing came"
                if message.error():
                    self._raise(message.error())
                found.append(bytes(message.value()))
        finally:
            consumer.close()
        return found

    def _raise(self, error: Any) -> None:
        assert error.code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED, error
        raise Refused(str(error))


# --- kafka-python ---------------------------------------------------------------------------------------------------


class KafkaPythonTokens(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, fetch: Callable[[], str]) -> None:
        self._fetch = fetch

    def token(self) -> str:
        return self._fetch()


class KafkaPython:
    def __init__(self, access: Access) -> None:
        self._settings: dict[str, Any] = {
            "bootstrap_servers": access.servers,
            "security_protocol": access.protocol,
            "ssl_cafile": str(access.ca),
        }
        self._group = {"group_id": access.group, "auto_offset_reset": "earliest"}
        if access.store is not None:
            self._settings |= {"ssl_certfile": str(access.store), "ssl_keyfile": str(access.store)}
            return
        self._settings["sasl_mechanism"] = access.login
        if access.login == "OAUTHBEARER":
            self._settings["sasl_oauth_token_provider"] = KafkaPythonTokens(access.token)
        elif access.login != "GSSAPI":
            self._settings |= {"sasl_plain_username": access.user, "sasl_plain_password": access.password}

    def write(self, topic: str, values: Sequence[bytes]) -> None:
        producer = kafka.KafkaProducer(**self._settings)
        try:
            for sent in [producer.send(topic, value) for value in values]:
                sent.get(HANG_S)
        except kafka.errors.TopicAuthorizationFailedError as error:
            raise Refused(str(error)) from None
        finally:
            producer.close()

    def read(self, topic: str, count: int) -> list[bytes]:
        consumer = kafka.KafkaConsumer(**self._settings, **self._group)
        try:
            # A subscription to a topic that it may not read stays silent for ever: kafka-python loses the refusal.
            if topic not in consumer.topics():
                raise Refused(f"{topic} is not there for this user")
            consumer.subscribe([topic])
            return [bytes(next(consumer).value) for _ in range(count)]
        finally:
            consumer.close()


# --- aiokafka -------------------------------------------------------------------------------------------------------


class AiokafkaTokens(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, fetch: Callable[[], str]) -> None:
        self._fetch = fetch

    async def token(self) -> str:
        return self._fetch()


class Aiokafka:
    def __init__(self, access: Access) -> None:
        store = None if access.store is None else str(access.store)
        context = aiokafka.helpers.create_ssl_context(cafile=str(access.ca), certfile=store, keyfile=store)
        self._settings: dict[str, Any] = {
            "bootstrap_servers": access.servers,
            "security_protocol": access.protocol,
            "ssl_context": context,
        }
        self._group = {"group_id": access.group, "auto_offset_reset": "earliest"}
        if access.store is not None:
            return
        self._settings["sasl_mechanism"] = access.login
        if access.login == "OAUTHBEARER":
            self._settings["sasl_oauth_token_provider"] = AiokafkaTokens(access.token)
        elif access.login != "GSSAPI":
            self._settings |= {"sasl_plain_username": access.user, "sasl_plain_password": access.password}

    def write(self, topic: str, values: Sequence[bytes]) -> None:
        async def run() -> None:
            async with aiokafka.AIOKafkaProducer(**self._settings) as producer:
                for sent in [await producer.send(topic, value) for value in values]:
                    await sent

        self._run(run())

    def read(self, topic: str, count: int) -> list[bytes]:
        async def run() -> list[bytes]:
            consumer = aiokafka.AIOKafkaConsumer(topic, **self._settings, **self._group)
            try:
                await consumer.start()  # it raises what it was refused, and `async with` would leave it open
                return [bytes((await consumer.getone()).value) for _ in range(count)]
            finally:
                await consumer.stop()

        return self._run(run())

    def _run(self, work: Any) -> Any:
        try:
            return asyncio.run(work)
        except aiokafka.errors.TopicAuthorizationFailedError as error:
            raise Refused(str(error)) from None


CLIENTS: Final[dict[str, Callable[[Access], Client]]] = {
    "ottla": Ottla,
    "ottla.aio": OttlaAio,
    "confluent": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}
