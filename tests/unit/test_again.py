"""The second chance of CI: for few, alone, once, and by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests import again

ROOT = Path(__file__).parents[2]
STEADY = "def test_steady(): pass\n"
BROKEN = "def test_broken(): assert False\n"


def run_again(place: Path, failed: list[str]) -> subprocess.CompletedProcess[str]:
    cache = place / again.LAST_FAILED
    cache.parent.mkdir(parents=True)
    cache.write_text(json.dumps(dict.fromkeys(failed, True)))
    (place / "pytest.ini").write_text("[pytest]\n")
    (place / "test_some.py").write_text(STEADY + BROKEN)
    return subprocess.run([sys.executable, again.__file__], cwd=place, capture_output=True, text=True, check=False)


def test_who_passes_alone_is_named_as_unsteady(tmp_path: Path) -> None:
    ended = run_again(tmp_path, ["test_some.py::test_steady"])
    assert ended.returncode == 0
    assert ended.stdout.endswith("unsteady, passed when alone: test_some.py::test_steady\n")


def test_who_fails_again_has_failed(tmp_path: Path) -> None:
    ended = run_again(tmp_path, ["test_some.py::test_broken", "test_some.py::test_steady"])
    assert ended.returncode == 1
    assert "failed: test_some.py::test_broken\n" in ended.stdout


def test_who_was_named_before_gets_no_second_chance(tmp_path: Path) -> None:
    known = tmp_path / again.UNSTEADY
    known.parent.mkdir()
    known.write_text("# what a run has named\ntest_some.py::test_steady  # 19 November, load 12\n")
    ended = run_again(tmp_path, ["test_some.py::test_steady[2]"])
    assert ended.returncode == 1
    assert "for the second time" in ended.stderr


def test_every_test_that_is_named_as_unsteady_is_there() -> None:
    for name in again.named_before():
        path, _, function = name.partition("::")
        assert f"def {function.rpartition('::')[2]}(" in (ROOT / path).read_text(), name


@pytest.mark.parametrize("count", [0, again.MOST + 1])
def test_none_and_many_get_no_second_chance(tmp_path: Path, count: int) -> None:
    ended = run_again(tmp_path, [f"test_some.py::test_steady[{number}]" for number in range(count)])
    assert ended.returncode == 1
    assert f"{count} tests failed" in ended.stderr


def test_ci_gives_it_and_make_test_does_not() -> None:
    assert "make test || make test-again" in (ROOT / ".ci/run").read_text()
    recipe = (ROOT / "Makefile").read_text().split("\ntest:")[1].split("\n\n")[0]
    assert "again" not in recipe
