"""What this suite is worth: planted faults are found and named, and what is quick is no finding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hostile_work.attack import Attacked, findings
from tests.hostile_work.crafted_requests import frame, made
from tests.hostile_work.wire import Attack

PLANTED = {"Heartbeat": "loop", "ListGroups": "lock", "DescribeCluster": "memory"}


def _attack(attacked: Attacked, api_name: str) -> Iterator[Attack]:
    def act(turn: int) -> None:
        with attacked.wire("bob") as bob:
            bob.send(frame(made(api_name)))
            assert bob.receive() is not None

    yield api_name, act


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    faults = [f"{api_name}:{kind}" for api_name, kind in PLANTED.items()]
    with Attacked(tmp_path_factory.mktemp("planted"), *faults) as broker:
        yield broker


def test_a_handler_that_holds_the_loop_is_found_with_its_name(planted: Attacked):
    (found,) = findings(planted, _attack(planted, "Heartbeat"))
    assert found.startswith("Heartbeat held the loop for ")
    assert "slow_on_the_loop" in found


def test_a_thread_that_keeps_the_interpreters_lock_is_found_although_the_loop_is_free(planted: Attacked):
    (found,) = findings(planted, _attack(planted, "ListGroups"))
    assert "kept the interpreter's lock from the loop" in found
    assert "held the loop" not in found


def test_a_handler_that_fills_the_memory_is_found(planted: Attacked):
    (found,) = findings(planted, _attack(planted, "DescribeCluster"))
    assert "MiB of memory" in found


def test_a_handler_without_a_fault_is_no_finding(planted: Attacked):
    assert findings(planted, _attack(planted, "ApiVersions")) == []


def test_a_broker_that_ends_is_said_with_its_log(tmp_path: Path):
    with pytest.raises(AssertionError, match="the broker has ended"):
        Attacked(tmp_path, "NoSuchApi:loop")
