"""How many tasks run at once, as far as a source can know."""

from __future__ import annotations

import pytest

from ottla.spark.running.cores import CORES_VARIABLE, core_count, local_cores


def test_the_environment_knows_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CORES_VARIABLE, "12")
    assert core_count() == 12


@pytest.mark.parametrize("said", ["", "0", "many", "-2", "99999"])
def test_nonsense_in_the_environment_does_not_count(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.delenv(CORES_VARIABLE, raising=False)
    own = core_count()
    monkeypatch.setenv(CORES_VARIABLE, said)
    assert core_count() == own >= 1


def test_a_local_master_says_how_many_tasks_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CORES_VARIABLE, "12")
    assert [local_cores(each) for each in ("local", "local[3]", "local[4,2]", "local[*]")] == [1, 3, 4, 12]
