"""The keys of tokens are read at the start, again in time, sooner when one is missing, and never from anywhere else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from ottla import Admin
from ottla.broker.requests.running import Background
from ottla.broker.security import key_sets
from ottla.broker.security.key_sets import SOONER_MS, KeySet, KeySets, KeySource, check_allowed
from ottla.clock import SystemClock
from ottla.errors import InvalidSetting
from ottla.testing import KafkaBroker
from ottla.testing.clock import ManualClock

PUBLIC = ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key(), as_dict=True)


def write(path: Path, *kids: str) -> None:
    path.write_text(json.dumps({"keys": [{**PUBLIC, "kid": kid} for kid in kids]}))


def kids(keys: KeySet) -> list[str | None]:
    found = keys.keys()
    return [key.kid for key in found]


def run(path: Path, story: Callable[[KeySet, ManualClock, Background], Coroutine[Any, Any, None]]) -> None:
    async def begin() -> None:
        clock, background = ManualClock(), Background()
        sets = KeySets(clock, background)
        source = KeySource(path.as_uri(), 60_000, 100, 10_000, 1_000)
        made = sets.of(source)
        assert sets.of(source) is made
        await sets.first_read()
        await quiet(background)
        await story(made, clock, background)
        sets.close()

    asyncio.run(begin())


async def quiet(background: Background) -> None:
    while not background.is_idle:  # noqa: ASYNC110 - a thread reads, and nothing else tells when it is done
        await asyncio.sleep(0.001)


def test_keys_are_read_at_the_start_and_again_in_time(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    write(path, "a")

    async def story(keys: KeySet, clock: ManualClock, background: Background) -> None:
        assert kids(keys) == ["a"]
        write(path, "b")
        await clock.advance(59_000)
        assert background.is_idle
        await clock.advance(1_000)
        await quiet(background)
        assert kids(keys) == ["b"]

    run(path, story)


def test_a_missing_key_brings_it_forward_but_not_for_everybody(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    write(path, "a")

    async def story(keys: KeySet, clock: ManualClock, background: Background) -> None:
        write(path, "b")
        keys.sooner()
        assert background.is_idle
        await clock.advance(SOONER_MS)
        keys.sooner()
        keys.sooner()
        await quiet(background)
        assert kids(keys) == ["b"]

    run(path, story)


def test_what_was_read_before_stays_when_reading_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "keys"
    write(path, "a")

    async def story(keys: KeySet, clock: ManualClock, background: Background) -> None:
        path.write_text("nothing")
        await clock.advance(60_000)
        await quiet(background)
        assert kids(keys) == ["a"]
        assert "could not be read" in caplog.text
        write(path, "c")
        await clock.advance(10_000)
        await quiet(background)
        assert kids(keys) == ["c"]

    run(path, story)


def test_a_file_that_is_not_there_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "keys"

    async def story(keys: KeySet, clock: ManualClock, background: Background) -> None:
        assert kids(keys) == []
        write(path, "late")
        await clock.advance(10_000)
        await quiet(background)
        assert kids(keys) == ["late"]

    run(path, story)


@pytest.mark.parametrize("url", ["ftp://idp/keys", "idp/keys", "/etc/passwd", "jar:file:///x"])
def test_only_known_ways_lead_to_keys(url: str) -> None:
    with pytest.raises(InvalidSetting, match="must begin with"):
        check_allowed(url, (url,), "a.setting")


@pytest.mark.parametrize("allowed", [(), ("https://idp/other",), ("https://idp/",), ("https://idp/keys/",)])
def test_only_addresses_that_are_allowed_are_asked(allowed: tuple[str, ...]) -> None:
    with pytest.raises(InvalidSetting, match=r"not in ottla\.oauthbearer\.allowed\.urls"):
        check_allowed("https://idp/keys", allowed, "a.setting")
    check_allowed("https://idp/keys", ("https://idp/keys",), "a.setting")


def test_a_provider_that_sends_us_elsewhere_is_not_followed() -> None:
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    asked: list[str] = []

    class Provider(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *arguments: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        source = KeySource(f"http://127.0.0.1:{server.server_port}/keys", 1, 1, 1, 5_000)
        with pytest.raises(key_sets.OttlaError, match="302"):
            source.read()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert asked == ["/keys"]


def test_a_broker_that_has_just_started_takes_good_tokens(tmp_path: Path) -> None:
    """It opens when the keys were read: a client does not try again after a refusal."""
    path = tmp_path / "keys"
    private = ec.generate_private_key(ec.SECP256R1())
    path.write_text(json.dumps({"keys": [ECAlgorithm.to_jwk(private.public_key(), as_dict=True)]}))
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": path.as_uri(),
        "ottla.oauthbearer.allowed.urls": path.as_uri(),
    }
    now_s = SystemClock().now_ms() // 1000
    token = jwt.encode({"sub": "alice", "iat": now_s, "exp": now_s + 600}, private, "ES256")
    with (
        KafkaBroker(settings) as broker,
        Admin(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_provider=lambda: token,
        ) as admin,
    ):
        assert admin.list_topics() == {}
