"""Schedules of a quorum alone: whatever happens to it, no promise of Raft is broken, and then it works again."""

import os

import pytest

from ottla.simulation.quorum.__main__ import main
from ottla.simulation.quorum.run import play

SEEDS_THAT_WERE_WRONG = (2, 4, 6, 12, 20, 38, 213, 1011)
"""Of machines before this one; each broke a promise once."""


@pytest.mark.parametrize("seed", [*range(1000, 1010), *SEEDS_THAT_WERE_WRONG])
def test_no_promise_is_broken(seed: int) -> None:
    play(seed)


def test_the_same_seed_gives_the_same_schedule() -> None:
    assert play(7).counts == play(7).counts


@pytest.mark.long
def test_twenty_thousand_schedules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "1-20000", "--jobs", str(os.cpu_count() or 1)]) == 0, capsys.readouterr().out
