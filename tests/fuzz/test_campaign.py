"""The fuzz campaign in small: every target is run, the broker and the client beside the decoders, and a finding is
reported with its input, whether it is an exception, a hang, a death without a word, or memory that grows.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.fuzz import all_targets, campaign, worker
from tests.fuzz.after_login import AfterLogin
from tests.fuzz.after_login import seeds as request_seeds
from tests.fuzz.hostile_answers import SESSIONS, STEP_BYTES, HostileAnswers
from tests.fuzz.more_targets import more_targets
from tests.fuzz.mutate import mutate
from tests.fuzz.targets import Target
from tests.fuzz.test_fuzz import fuzz, needs_atheris

TARGETS = more_targets()
INPUTS, LONG_INPUTS = 1_000, 100_000
FRAMES, SCRIPTS = 700, 60
targets = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


@targets
def test_no_bytes_surprise_a_decoder(target: Target) -> None:
    assert fuzz(target, INPUTS, "short") > 0


@targets
@pytest.mark.long
def test_no_bytes_surprise_a_decoder_in_hundreds_of_thousands(target: Target) -> None:
    assert fuzz(target, LONG_INPUTS, "long") > 0


def test_a_broker_stands_any_frames_after_a_login() -> None:
    source, known, fuzzed = random.Random("frames"), request_seeds(), AfterLogin()
    for number in range(FRAMES):
        frame = known[number * 7 % len(known)]
        fuzzed.feed(frame if number % 5 == 0 else mutate(frame, source))
    fuzzed.close()
    assert fuzzed.ended["answered"] > FRAMES / 5
    assert fuzzed.ended["closed"] > FRAMES / 5


def test_our_client_stands_any_answers() -> None:
    source, fuzzed = random.Random("answers"), HostileAnswers()
    for number in range(SCRIPTS):
        fuzzed.feed(bytes([number % len(SESSIONS)]) + source.randbytes(STEP_BYTES * (number % 6)))
    fuzzed.close()
    assert fuzzed.counted["sessions"] == SCRIPTS
    assert fuzzed.counted["bent"] > SCRIPTS


# -- the campaign itself -----------------------------------------------------------------------------------------------


def test_every_target_has_a_name_of_its_own_and_gets_inputs() -> None:
    names = [target.name for target in all_targets.all_targets()]
    assert len(set(names)) == len(names)
    assert set(all_targets.SHARES) <= set(names)
    shares = all_targets.shared_out(1_000_000, names)
    assert sum(shares.values()) >= 1_000_000
    assert min(shares.values()) > 0


def test_a_run_is_counted_and_the_next_one_is_added(tmp_path: Path) -> None:
    for expected in (300, 600):
        row, finding = campaign.fuzz("scan", 300, "mutation", "1", tmp_path)
        assert (finding, row.inputs, row.edges) == ("", expected, 0)
    assert campaign.table([row]).splitlines()[-1].startswith("| all 1 |  | 600 |")


BROKEN = {
    "exception": "raise KeyError(data)",
    "death": "os.kill(os.getpid(), 9)",
    "hang": "signal.alarm(1)\n    while True: pass",
    "growth": "kept.append(b'x' * (1 << 16))",
}
SITE = """
import os, signal
from tests.fuzz import all_targets
from tests.fuzz.targets import Target
kept = []
def decode(data):
    {}
all_targets.find_target = lambda name: Target(name, decode, (), lambda: [b"fine"])
"""


@pytest.mark.parametrize("kind", BROKEN)
def test_a_finding_is_reported_with_its_input(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITE.format(BROKEN[kind]))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{campaign.ROOT}:{campaign.ROOT / 'src'}")
    row, finding = campaign.fuzz("planted", 2_000, "mutation", "1", tmp_path / "fuzz")
    assert row.findings == 1
    if kind == "growth":
        assert "memory grew by" in finding
    else:
        assert f"its last input was {b'fine'.hex()}" in finding


@needs_atheris
@pytest.mark.long
@pytest.mark.parametrize("target", [all_targets.AFTER_LOGIN, all_targets.HOSTILE, all_targets.MESSAGES])
def test_coverage_guides_inputs_of_whole_brokers_and_clients(target: str, tmp_path: Path) -> None:
    row, finding = campaign.fuzz(target, 2_000, "atheris", "1", tmp_path)
    assert not finding, finding
    assert row.edges > 1_000


def test_the_watch_measures_this_process(tmp_path: Path) -> None:
    assert worker.memory_bytes() > 1 << 20
    watch = worker.Watch(tmp_path, 10)
    watch.before(b"abc")
    watch.sample()
    assert (tmp_path / "current").read_bytes()[:7] == b"\0\0\0\x03abc"
