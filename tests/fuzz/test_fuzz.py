"""No bytes make a decoder raise anything but its declared error; 200,000 inputs in every run, millions in the long one.

A failure names the target and the input, in hex: put it into a test of its own before mending the decoder.
"""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz import campaign
from tests.fuzz.mutate import mutate
from tests.fuzz.targets import Target, message_targets, other_targets

MESSAGES = list(message_targets())
OTHERS = other_targets()
INPUTS_PER_MESSAGE = 250
INPUTS_PER_OTHER = 5_000
ATHERIS_RUNS = 12_000
LONG_FACTOR = 30


def fuzz(target: Target, count: int, seed: str) -> int:
    """Feed mutated seeds; gives how many inputs were accepted."""
    source = random.Random(f"{seed} {target.name}")
    seeds = target.seeds()
    assert seeds, f"{target.name} has nothing to start from"
    accepted = 0
    for number in range(count):
        data = source.choice(seeds)
        if number:  # the first one goes in as it is
            data = mutate(data, source) if number % 10 else source.randbytes(source.randrange(200))
        try:
            target.decode(data)
            accepted += 1
        except target.declared:
            pass
        except BaseException as error:
            raise AssertionError(f"{target.name} raised {error!r} for {data.hex()}") from error
    return accepted


def test_the_short_run_has_two_hundred_thousand_inputs() -> None:
    atheris = 5 * ATHERIS_RUNS
    assert len(MESSAGES) * INPUTS_PER_MESSAGE + len(OTHERS) * INPUTS_PER_OTHER + atheris >= 200_000


@pytest.mark.parametrize("part", range(8))
def test_no_bytes_surprise_a_message_decoder(part: int) -> None:
    for target in MESSAGES[part::8]:
        assert fuzz(target, INPUTS_PER_MESSAGE, "short") > 0


@pytest.mark.parametrize("target", OTHERS, ids=lambda target: target.name)
def test_no_bytes_surprise_a_decoder(target: Target) -> None:
    assert fuzz(target, INPUTS_PER_OTHER, "short") > 0


@pytest.mark.parametrize("target", OTHERS, ids=lambda target: target.name)
def test_nothing_hypothesis_finds_surprises_a_decoder(target: Target) -> None:
    seeds = target.seeds()

    @given(st.binary(max_size=300) | st.builds(mutate, st.sampled_from(seeds), st.randoms(use_true_random=False)))
    def check(data: bytes) -> None:
        try:
            target.decode(data)
        except target.declared:
            pass

    check()


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_no_bytes_surprise_a_message_decoder_in_millions(part: int) -> None:
    for target in MESSAGES[part::8]:
        fuzz(target, INPUTS_PER_MESSAGE * LONG_FACTOR, "long")


@pytest.mark.long
@pytest.mark.parametrize("target", OTHERS, ids=lambda target: target.name)
def test_no_bytes_surprise_a_decoder_in_millions(target: Target) -> None:
    fuzz(target, INPUTS_PER_OTHER * LONG_FACTOR, "long")


def run_atheris(target: str, runs: int, folder: Path) -> None:
    row, finding = campaign.fuzz(target, runs, "atheris", "1", folder)
    assert not finding, finding
    # It may do more: when it reads its folder again, what it finds there counts too.
    assert row.inputs >= runs
    assert row.edges > 0
    assert row.peak_mib > 0


COVERAGE_TARGETS = ["request frame", "record stream", "record batch without check", "message set", "ProduceRequest 9"]
needs_atheris = pytest.mark.skipif(not campaign.has_atheris(), reason="atheris has no wheel here")


@needs_atheris
@pytest.mark.parametrize("target", COVERAGE_TARGETS)
def test_coverage_guided_bytes_surprise_no_decoder(target: str, tmp_path: Path) -> None:
    run_atheris(target, ATHERIS_RUNS, tmp_path)


@needs_atheris
@pytest.mark.long
@pytest.mark.parametrize("target", COVERAGE_TARGETS)
def test_coverage_guided_bytes_surprise_no_decoder_in_millions(target: str, tmp_path: Path) -> None:
    run_atheris(target, ATHERIS_RUNS * 80, tmp_path)
