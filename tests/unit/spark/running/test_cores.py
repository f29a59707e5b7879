"""How many tasks run at once, as far as a source can know."""

from __future__ import annotations

import pytest

from ottla.spark.running.cores import CORES_VARIABLE, core_count


def test_the_environment_knows_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CORES_VARIABLE, "12")
    assert core_count() == 12


@pytest.mark.parametrize("said", ["", "0", "many", "-2", "99999"])
def test_nonsense_in_the_environment_does_not_count(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.delenv(CORES_VARIABLE, raising=False)
    own = core_count()
    monkeypatch.setenv(CORES_VARIABLE, said)
    assert core_count() == own >= 1
