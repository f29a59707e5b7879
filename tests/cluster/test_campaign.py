"""The campaign (campaign.py) for a short time; `python -m tests.cluster.campaign` runs it for as long as wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.testing.zookeeper import missing

if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from tests.cluster.campaign import run

pytestmark = pytest.mark.long

SECONDS = 100


def test_nothing_is_lost_whatever_fails(tmp_path: Path) -> None:
    outcome = run(tmp_path, SECONDS, seed=1)
    assert "All checks passed" in outcome.report
    (tmp_path / "report.md").write_text(outcome.report)
