"""A stream in update mode is refused by start(), because Spark would let it die a moment later."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.spark.option_table import InvalidOption
from ottla.spark.running.output_modes import check_output_modes


def checked_writer() -> Any:
    class Writer:
        def format(self, source: str) -> Any:
            return self

        def outputMode(self, mode: str) -> Any:  # noqa: N802
            return self

        def start(self, path: Any = None, format: Any = None, outputMode: Any = None, **options: Any) -> Any:  # noqa: N803
            return "started", format, outputMode, options

    check_output_modes(Writer)
    check_output_modes(Writer)
    return Writer()


def test_update_mode_is_refused_with_what_to_do_instead():
    with pytest.raises(InvalidOption, match="foreachBatch"):
        checked_writer().format("ottla").outputMode("update").start()
    with pytest.raises(InvalidOption, match="withWatermark"):
        checked_writer().start(format="Ottla", outputMode="Update")


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_modes_that_work_begin(mode):
    assert checked_writer().format("ottla").outputMode(mode).start(queryName="q")[3] == {"queryName": "q"}


def test_other_sinks_and_writers_without_a_mode_are_left_alone():
    assert checked_writer().format("memory").outputMode("update").start()[0] == "started"
    assert checked_writer().format("ottla").start()[0] == "started"
