"""What a login decides is carried out: delays, the time for a login, counters, settings that change while running."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any

import pytest
from tests.unit.broker.security.logins import ALICE, Rules, frame, handshake, header_only, token, told, versions

from ottla.broker.network.processor import Connection
from ottla.broker.security.login import Reply
from ottla.broker.security.logins import LOGIN_LIMIT_MS, ListenerLogins, LoginMetrics
from ottla.client.admin.admin import Admin
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.errors import InvalidRequest, InvalidSetting
from ottla.metrics import Registry
from ottla.net.framing import SIZE
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.testing import KafkaBroker
from ottla.testing.clock import ManualClock

METADATA = frame(MetadataRequest(topics=[]), 9)


class FakeLink:
    remote_address, local_address, writable = ("10.0.0.1", 1), None, True

    def __init__(self) -> None:
        self.written = b""
        self.following: tuple[memoryview, ...] = ()
        self.is_paused, self.end = False, ""

    def write(self, buffers: Any) -> None:
        self.written += b"".join(buffers)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        self.end = "closed"

    def abort(self, reason: object = None) -> None:
        self.end = "aborted"

    def answer(self) -> Reply:
        """What was written last, as an answer without its size."""
        (size,) = SIZE.unpack_from(self.written)
        body, self.written = self.written[SIZE.size : SIZE.size + size], self.written[SIZE.size + size :]
        return Reply([body])


class Behind:
    """A dispatcher that answers everything."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, str]] = []
        self.run_count = 0

    def dispatch(self, frame: memoryview, connection: Connection) -> list[bytes]:
        self.seen.append((int.from_bytes(frame[:2]), connection.principal))
        return [b"served"]

    def dispatch_run(self, *_: Any) -> None:
        self.run_count += 1


class Place:
    """A connection with a login, by hand."""

    def __init__(self, rules: Rules | None = None, delay_ms: float = 100) -> None:
        self.clock, self.behind, self.link, self.registry = ManualClock(), Behind(), FakeLink(), Registry()
        self.logins = ListenerLogins(
            rules or Rules(),  # type: ignore[arg-type]
            clock=self.clock,
            random=Random(7),
            metrics=LoginMetrics(self.registry, "SASL"),
            delay_ms=lambda: delay_ms,
        )
        self.login = self.logins.login(self.behind)  # type: ignore[arg-type]
        self.connection = Connection(1, "SASL", self.login, lambda _: None, clock=self.clock)
        self.connection.opened(self.link)  # type: ignore[arg-type]
        self.login.begin(self.connection)

    def send(self, *frames: memoryview) -> None:
        for each in frames:
            self.connection.frame_received(each)

    def counted(self) -> dict[str, float]:
        names = ("successful", "failed", "successful_again", "failed_again", "expired")
        return {name: value for name in names if (value := getattr(self.logins.metrics, name).value)}


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


def test_after_a_login_requests_are_served_in_the_name_of_the_user() -> None:
    async def story() -> None:
        place = Place()
        place.send(versions(), handshake(), token(ALICE), METADATA)
        assert place.behind.seen == [(18, "User:ANONYMOUS"), (3, "User:alice")]
        assert place.counted() == {"successful": 1}

    run(story)


def test_a_refusal_waits_with_jitter_and_nothing_is_read_meanwhile() -> None:
    async def story() -> None:
        place = Place()
        place.send(versions(), handshake(), token(b"\0alice\0wrong"))
        place.link.written = b""
        assert place.link.is_paused
        await place.clock.advance(99)
        assert (place.link.written, place.link.end) == (b"", "")
        await place.clock.advance(51)
        assert told(place.link.answer()).error_code == 58
        assert place.link.end == "closed"
        assert place.counted() == {"failed": 1}

    run(story)


def test_waits_differ_by_chance() -> None:
    async def story() -> None:
        place = Place()
        waits = {place.logins.delay_ms() for _ in range(50)}
        assert len(waits) == 50
        assert 100 <= min(waits) < max(waits) <= 150

    run(story)


def test_a_request_before_the_login_is_closed_without_an_answer() -> None:
    async def story() -> None:
        place = Place(delay_ms=0)
        place.send(METADATA)
        await place.clock.advance(1)
        assert (place.link.written, place.link.end, place.behind.seen) == (b"", "closed", [])
        assert place.counted() == {"failed": 1}

    run(story)


def test_a_login_has_its_time() -> None:
    async def story() -> None:
        place, honest = Place(), Place()
        for each in (place, honest):
            each.send(versions(), handshake())
        honest.send(token(ALICE))
        for each in (place, honest):
            await each.clock.advance(LOGIN_LIMIT_MS - 1)
        assert place.link.end == ""
        for each in (place, honest):
            await each.clock.advance(1)
        assert (place.link.end, honest.link.end) == ("aborted", "")

    run(story)


def test_the_time_does_not_count_while_the_broker_holds_everybody_back() -> None:
    async def story() -> None:
        place, is_holding = Place(), True
        place.login.begin(place.connection, lambda: is_holding)
        await place.clock.advance(LOGIN_LIMIT_MS + 1)
        assert place.link.end == ""
        is_holding = False
        await place.clock.advance(LOGIN_LIMIT_MS)
        assert place.link.end == "aborted"

    run(story)


def test_another_login_has_its_time_and_its_counter() -> None:
    async def story() -> None:
        place = Place()
        place.send(handshake(), token(ALICE), handshake(), token(ALICE))
        assert place.counted() == {"successful": 1, "successful_again": 1}
        await place.clock.advance(2_000)
        place.send(handshake())
        await place.clock.advance(LOGIN_LIMIT_MS)
        assert place.link.end == "aborted"

    run(story)


def test_a_request_after_the_end_of_the_session_is_not_served() -> None:
    async def story() -> None:
        place = Place(Rules(max_reauth_ms=1_000))
        place.send(handshake(), token(ALICE))
        await place.clock.advance(1_000)
        place.send(METADATA)
        assert (place.link.end, place.behind.seen) == ("closed", [])
        assert place.counted() == {"successful": 1, "expired": 1}

    run(story)


def test_requests_that_came_together_wait_for_the_login_too() -> None:
    async def story() -> None:
        place = Place()
        assert place.login.dispatch_run(header_only(0, 9), (header_only(0, 9),), place.connection) is None  # type: ignore[arg-type]
        assert place.behind.run_count == 0
        place.send(handshake(), token(ALICE))
        assert place.behind.run_count == 0
        place.login.dispatch_run(header_only(0, 9), (header_only(0, 9),), place.connection)  # type: ignore[arg-type]
        assert place.behind.run_count == 1

    run(story)


# --- in a broker ---------------------------------------------------------------------------------------------------

KEY = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_users_and_mechanisms_change_while_the_broker_runs() -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        KEY: f'{MODULE} required user_alice="secret";',
    }
    with KafkaBroker(settings) as broker:

        def outcome(values: dict[str, str]) -> str:
            return broker.call(lambda server: _changed(server.broker.dynamic, values))

        assert outcome({KEY: f'{MODULE} required user_bob="other";'}) == "changed"
        assert outcome({KEY: f"{MODULE} required;"}) == "refused"
        assert outcome({"listener.name.sasl_plaintext.sasl.enabled.mechanisms": "NTLM"}) == "refused"
        assert outcome({"listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-512"}) == "changed"


def _changed(dynamic: Any, values: dict[str, str]) -> str:
    try:
        dynamic.replace("per-broker", values)
    except InvalidSetting:
        return "refused"
    return "changed"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "GSSAPI"),
        ({"sasl.enabled.mechanisms": "NTLM"}, "NTLM"),
        ({"sasl.enabled.mechanisms": ""}, "is empty"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "must be set"),
        ({"sasl.enabled.mechanisms": "PLAIN", KEY: f'{MODULE} required username="a" password="hunter2";'}, "no users"),
        ({"sasl.enabled.mechanisms": "PLAIN", KEY: f'{MODULE} required user_="hunter2";'}, "without a name"),
        ({"sasl.enabled.mechanisms": "PLAIN", KEY: 'com.evil.Exec required user_a="hunter2";'}, "not known"),
        (
            {"sasl.enabled.mechanisms": "PLAIN", KEY: f"{MODULE.replace('plain.Plain', 'scram.Scram')} required;"},
            "must be PlainLoginModule",
        ),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "jwks.endpoint.url"),
        (
            {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": "https://idp/keys"},
            "allowed.urls",
        ),
    ],
)
def test_a_listener_that_nobody_could_log_in_at_does_not_open(values: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidSetting, match=why) as refused:
        KafkaBroker({"listeners": "SASL_PLAINTEXT://127.0.0.1:0", **values}).start()
    assert "hunter2" not in str(refused.value)


SCRAM_KEY = "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config"
SCRAM_MODULE = MODULE.replace("plain.Plain", "scram.Scram")
BROKER_0 = ConfigResource(ConfigResourceType.BROKER, "0")


@pytest.mark.parametrize("key", [SCRAM_KEY, KEY, "listener.name.plaintext.sasl.jaas.config", "sasl.jaas.config"])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f'{SCRAM_MODULE} required password="hunter2"', "does not end with a semicolon"),
        ("hunter2", "does not end with a semicolon or is empty"),
        (f'{SCRAM_MODULE} required password="hunter2;', "a quote that does not end"),
        (f'{SCRAM_MODULE} password="hunter2";', "no control flag"),
        (f"{SCRAM_MODULE} required hunter2;", "not name=value"),
        ('com.evil.Exec required password="hunter2";', "a module that is not known"),
    ],
)
def test_a_login_that_cannot_be_read_is_refused_whoever_would_use_it(
    scram_broker: KafkaBroker, key: str, text: str, why: str
) -> None:
    with Admin(bootstrap_servers=_plain_address(scram_broker)) as admin:
        with pytest.raises(InvalidRequest, match=why) as refused:
            admin.incremental_alter_configs({BROKER_0: [AlterConfig(key, text)]})
        assert "hunter2" not in str(refused.value)


def test_a_login_for_scram_has_scrams_module(scram_broker: KafkaBroker) -> None:
    with Admin(bootstrap_servers=_plain_address(scram_broker)) as admin:
        with pytest.raises(InvalidRequest, match="the module must be ScramLoginModule, not PlainLoginModule"):
            admin.incremental_alter_configs({BROKER_0: [AlterConfig(SCRAM_KEY, f"{MODULE} required;")]})
        admin.incremental_alter_configs({BROKER_0: [AlterConfig(SCRAM_KEY, f"{SCRAM_MODULE} required;")]})


@pytest.fixture(scope="module")
def scram_broker() -> Iterator[KafkaBroker]:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }
    with KafkaBroker(settings) as broker:
        yield broker


def _plain_address(broker: KafkaBroker) -> str:
    return broker.bootstrap_servers.split(",")[1]
