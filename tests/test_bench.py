"""What the benchmarks import is there: they are run by hand, long after what they use was renamed."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

BENCH = Path(__file__).parent.parent / "bench"
OURS = ("ottla", "tests", "bench")


def imports_of(path: Path) -> Iterator[tuple[str, str]]:
    """Modules of ours, and the names that are taken from them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.split(".")[0] in OURS:
            for name in node.names:
                yield node.module, name.name


@pytest.mark.parametrize("path", sorted(BENCH.rglob("*.py")), ids=lambda path: str(path.relative_to(BENCH)))
def test_what_a_benchmark_imports_is_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH.parent))
    for module, name in imports_of(path):
        is_there = hasattr(importlib.import_module(module), name)
        assert is_there or importlib.util.find_spec(f"{module}.{name}") is not None, f"{module} has no {name}"
