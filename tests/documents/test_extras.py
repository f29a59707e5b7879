"""A fresh environment that has the wheel with one extra, and nothing else: the pages of that extra work there.

The short half, which every run has, is tests/unit/spark/doctor: the extra names every package that pipelines ask for.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.documents.test_documents import read_beside_brokers
from tests.spark.running import why_not

ROOT = Path(__file__).parents[2]
PAGES = {
    "spark": ("docs/pipelines.md", "docs/spark.md"),
    "spark,registry": ("docs/tutorials/schemas.md",),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", directory, ROOT])
    return next(directory.glob("*.whl"))


def run(command: list[object]) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.long
@pytest.mark.parametrize("extra", PAGES)
def test_the_pages_of_an_extra_work_with_what_it_installs(extra: str, wheel: Path, tmp_path: Path) -> None:
    if "spark" in extra and (reason := why_not()) is not None:
        pytest.skip(reason)
    run([sys.executable, "-m", "venv", tmp_path / "env"])
    python = tmp_path / "env/bin/python"
    run([python, "-m", "pip", "install", "-q", f"{wheel}[{extra}]", "pytest"])  # who writes tests has it
    for page in PAGES[extra]:
        place = tmp_path / page.replace("/", "-")
        place.mkdir()
        read_beside_brokers(page, place, str(python))
