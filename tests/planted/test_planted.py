"""Every planted bug still applies to today's source, and two of them are found by their seeds."""

from __future__ import annotations

import pytest
from tests.planted.bugs import BUGS
from tests.planted.seeking import seek

BUDGET_S = 600.0


@pytest.mark.parametrize("bug", BUGS.values(), ids=list(BUGS))
def test_the_patch_applies_to_the_source_of_today(bug):
    assert bug.problem() is None
    assert bug.old != bug.new


def test_there_are_at_least_forty():
    assert len(BUGS) >= 40
    assert len({(bug.file, bug.old, bug.new) for bug in BUGS.values()}) == len(BUGS)


@pytest.mark.parametrize("name", ["aborted-transactions-are-not-named", "ack-before-isr"])
def test_two_of_them_are_found_within_few_schedules(name):
    outcome = seek(BUGS[name], limit=8, timeout_s=BUDGET_S)
    assert outcome.seed is not None, outcome.line()
