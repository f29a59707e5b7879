"""Native leaves and their twins say the same of every byte; in the long mode also under AddressSanitizer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.fuzz import sanitized
from tests.fuzz.frame_targets import frame_targets
from tests.fuzz.leaf_targets import leaf_targets
from tests.fuzz.targets import Target
from tests.fuzz.test_fuzz import fuzz

LEAVES = [*leaf_targets(), *frame_targets()]
INPUTS = 3_000
LONG_FACTOR = 100

leaves = pytest.mark.parametrize("target", LEAVES, ids=lambda target: target.name)
needs_sanitizer = pytest.mark.skipif(sanitized.missing() is not None, reason=f"no sanitizer: {sanitized.missing()}")

CANARY = """
#include <stdlib.h>
int beyond(int index) {
    volatile char *block = malloc(8);
    int found = block[index];
    free((void *) block);
    return found;
}
"""


@leaves
def test_no_bytes_tell_a_leaf_from_its_twin(target: Target) -> None:
    assert fuzz(target, INPUTS, "short") == INPUTS


@leaves
@pytest.mark.long
def test_no_bytes_tell_a_leaf_from_its_twin_in_hundreds_of_thousands(target: Target) -> None:
    assert fuzz(target, INPUTS * LONG_FACTOR, "long") == INPUTS * LONG_FACTOR


@needs_sanitizer
def test_the_sanitizer_sees_one_byte_too_many(tmp_path: Path) -> None:
    (tmp_path / "canary.c").write_text(CANARY)
    built = tmp_path / "canary.so"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", *sanitized.FLAGS.split(), "-o", built, tmp_path / "canary.c"], check=True
    )
    program = f"import ctypes; ctypes.CDLL({str(built)!r}).beyond(%d)"
    assert sanitized.run(tmp_path, "-c", program % 7).returncode == 0
    found = sanitized.run(tmp_path, "-c", program % 8)
    assert found.returncode != 0
    assert "heap-buffer-overflow" in found.stderr


@pytest.fixture(scope="module")
def sanitized_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sanitized") / "build"
    sanitized.build(directory)
    return directory


@needs_sanitizer
@pytest.mark.long
@pytest.mark.parametrize("tests", sanitized.TESTS)
def test_leaves_touch_no_memory_but_their_own(sanitized_build: Path, tests: str) -> None:
    where = sanitized.run(sanitized_build, "-c", "import ottla.records._native as leaf; print(leaf.__file__)")
    assert where.stdout.startswith(str(sanitized_build)), where.stderr[-2000:]
    done = sanitized.run_tests(sanitized_build, tests)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
