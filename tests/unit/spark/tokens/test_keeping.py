"""When tokens are asked for, renewed and replaced; and the keeper that does it, with a cluster that is not there."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from ottla.client.admin.credentials import DelegationToken, Principal
from ottla.errors import RequestTimedOut
from ottla.spark.tokens.clusters import TokenCluster
from ottla.spark.tokens.handout import FILE_NAME, read_tokens
from ottla.spark.tokens.keeper import TokenKeeper
from ottla.spark.tokens.keeping import Held, Step, next_step
from ottla.testing.clock import ManualClock

ALICE = Principal("User", "alice")
EXPIRY_MS, MAX_MS = 1_000, 2_500


def token(number: int, now_ms: float) -> DelegationToken:
    times_ms = [int(now_ms) + each for each in (0, EXPIRY_MS, MAX_MS)]
    return DelegationToken(f"token-{number}", ALICE, ALICE, *times_ms, hmac=b"hmac-%d" % number)


# --- decisions -------------------------------------------------------------------------------------------------------


def test_without_a_token_one_is_created() -> None:
    assert next_step(None, 0) is Step.CREATE


def test_a_token_is_renewed_after_three_quarters_of_its_time() -> None:
    held = Held.begin(token(1, 0), 0)
    assert [next_step(held, now_ms) for now_ms in (0, 749, 750, 999)] == [Step.WAIT, Step.WAIT, Step.RENEW, Step.RENEW]
    assert next_step(held.renewed(1_750, 750), 751) is Step.WAIT
    assert next_step(held.renewed(1_750, 750), 1_500) is Step.RENEW


def test_a_token_at_the_end_of_its_life_is_replaced() -> None:
    held = Held.begin(token(1, 0), 0).renewed(MAX_MS, 1_500)
    assert [next_step(held, now_ms) for now_ms in (2_249, 2_250)] == [Step.WAIT, Step.CREATE]


def test_a_token_that_is_too_old_is_replaced() -> None:
    assert next_step(Held.begin(token(1, 0), 0), EXPIRY_MS) is Step.CREATE


def test_what_failed_is_tried_again_soon() -> None:
    day = Held.begin(DelegationToken("t", ALICE, ALICE, 0, 86_400_000, 604_800_000, b""), 0)
    assert day.failed(64_800_000).due_ms == 64_800_000 + 60_000
    assert Held.begin(token(1, 0), 0).failed(750).due_ms == 750 + 1_000


# --- the keeper ------------------------------------------------------------------------------------------------------


class Brokers:
    """Gives tokens, and can be told to refuse."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.calls: list[str] = []
        self.asked_with: list[Mapping[str, object]] = []
        self.refuses = False

    def make_admin(self, settings: Mapping[str, object]) -> Self:
        self.asked_with.append(settings)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        pass

    def _hear(self, call: str) -> None:
        self.calls.append(call)
        if self.refuses:
            raise RequestTimedOut("nobody answers")

    def create_delegation_token(self, *, timeout: float) -> DelegationToken:
        self._hear("create")
        return token(self.calls.count("create"), self.clock.now_ms())

    def renew_delegation_token(self, hmac: bytes, *, timeout: float) -> int:
        self._hear(f"renew {hmac.decode()}")
        return int(self.clock.now_ms()) + EXPIRY_MS

    def expire_delegation_token(self, hmac: bytes, *, timeout: float) -> int:
        self._hear(f"expire {hmac.decode()}")
        return 0


CLUSTER = TokenCluster("main", ".*", "SASL_SSL", "SCRAM-SHA-256", {"sasl.password": "pencil"})


class Place:
    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock()
        self.brokers = Brokers(self.clock)
        self.directory = directory
        self.keeper = TokenKeeper(
            [CLUSTER], directory, make_admin=self.brokers.make_admin, clock=self.clock, wait=lambda seconds: True
        )

    def later(self, duration_ms: float) -> list[str]:
        """Let time pass and look; gives what was asked of the brokers."""
        before = len(self.brokers.calls)
        self.clock.move(duration_ms)
        self.keeper.check()
        return self.brokers.calls[before:]

    @property
    def handed(self) -> str:
        (only,) = read_tokens(self.directory)
        return only.jaas_config


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.keeper.start()
    return made


def test_tokens_are_handed_out_in_a_private_file_without_the_password(place: Place) -> None:
    file = place.directory / FILE_NAME
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in place.directory.iterdir()] == [FILE_NAME]
    (only,) = json.loads(file.read_text())
    assert (only["cluster"], only["mechanism"], only["security_protocol"]) == ("main", "SCRAM-SHA-256", "SASL_SSL")
    assert "token-1" in only["jaas_config"]
    assert "pencil" not in file.read_text()
    assert place.brokers.asked_with == [{"sasl.password": "pencil"}]


def test_a_token_is_renewed_and_in_the_end_replaced(place: Place) -> None:
    assert place.later(700) == []
    assert place.later(50) == ["renew hmac-1"]
    assert "token-1" in place.handed
    assert place.later(750) == ["renew hmac-1"]
    assert place.later(749) == []
    assert place.later(1) == ["create"]
    assert "token-2" in place.handed


def test_brokers_that_do_not_answer_are_asked_again(place: Place, caplog: Any) -> None:
    place.brokers.refuses = True
    with caplog.at_level(logging.DEBUG):
        assert place.later(750) == ["renew hmac-1"]
        assert place.later(100) == []
    assert "nobody answers" in caplog.text
    assert "hmac" not in caplog.text
    place.brokers.refuses = False
    assert place.later(900) == ["create"]  # by now the first one is too old


def test_a_refused_first_token_stops_the_start(tmp_path: Path) -> None:
    made = Place(tmp_path)
    made.brokers.refuses = True
    with pytest.raises(RequestTimedOut):
        made.keeper.start()


def test_the_end_of_the_job_ends_its_tokens(place: Place) -> None:
    place.keeper.stop()
    place.keeper.stop()
    assert place.brokers.calls == ["create", "expire hmac-1"]


def test_a_job_that_is_over_needs_no_tokens(place: Place) -> None:
    (place.directory / FILE_NAME).unlink()
    place.directory.rmdir()
    with pytest.raises(FileNotFoundError):
        place.later(750)
