"""Every planted bug still applies to today's source, some are found within few schedules, and the page says what was
found."""

from __future__ import annotations

import pytest
from tests.planted.bugs import BUGS
from tests.planted.report import PAGE, page_with_table, read_found
from tests.planted.seeking import seek

CPU_S = 120.0


@pytest.mark.parametrize("bug", BUGS.values(), ids=list(BUGS))
def test_the_patch_applies_to_the_source_of_today(bug):
    assert bug.problem() is None
    assert all(old != new for _, old, new in bug.edits)


def test_there_are_at_least_forty():
    assert len(BUGS) >= 40
    assert len({bug.edits for bug in BUGS.values()}) == len(BUGS)


@pytest.mark.parametrize("name", ["aborted-transactions-are-not-named", "ack-before-isr"])
def test_two_of_them_are_found_within_few_schedules(name):
    outcome = seek(BUGS[name], limit=8, cpu_s=CPU_S)
    assert outcome.seed is not None, outcome.line()


def test_the_page_has_the_table_of_what_was_found():
    page = PAGE.read_text()
    assert page_with_table(page, read_found()) == page


def test_what_was_found_names_bugs_that_there_are():
    assert set(read_found()) <= set(BUGS)
