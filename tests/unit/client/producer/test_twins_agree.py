"""The native sender and its Python twin do the same in drawn sequences of sends, answers, errors, time-outs, splits and
transactions."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("twin_trace.py")


def trace(twin: str, first: int, count: int) -> list[str]:
    environment = {**os.environ, "OTTLA_RECORDS": twin}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(first), str(count)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def compare(first: int, count: int) -> None:
    pytest.importorskip("ottla.client.producer.batches._append", reason="not built: no C compiler")
    native, python = trace("native", first, count), trace("python", first, count)
    for number, (ours, theirs) in enumerate(itertools.zip_longest(native, python)):
        assert ours == theirs, f"line {number}, {next(line for line in native[number::-1] if line[:5] == 'seed ')}"
    text = "\n".join(native)
    ends = ("commit_transaction ended with None", "abort_transaction ended with None", "ABORTABLE_ERROR to ABORTING")
    errors = ("DeliveryTimedOut", "OutOfOrderSequenceNumber")
    for word in ("Send", "Fail", "told", "split", "no memory", "Connect", "RefreshMetadata", "refused", *errors, *ends):
        assert word in text, f"the drawn sequences never reach {word}"


def test_both_twins_do_the_same_byte_for_byte():
    compare(0, 60)


@pytest.mark.long
def test_both_twins_do_the_same_in_many_more_sequences():
    for first in range(60, 3060, 300):
        compare(first, 300)
