"""The rules of the house that a machine can check."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.application.use_cases import lint_imports, read_user_options
from importlinter.configuration import configure

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))

# What `import ottla` must not load: it would be paid by everybody who only wanted one part.
HEAVY = ("asyncio", "uvloop", "lz4", "zstandard", "cramjam", "crc32c", "pyarrow", "pyspark", "kazoo", "hypothesis")


def test_imports_go_down_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The contracts stand in pyproject.toml under [tool.importlinter]."""
    monkeypatch.chdir(ROOT)
    configure()
    kept = lint_imports(config_filename="pyproject.toml", cache_dir=None)
    assert kept, capsys.readouterr().out


def test_every_room_is_in_the_contracts() -> None:
    """A room that nobody listed would be a room without walls."""
    configure()
    options = read_user_options(config_filename=str(ROOT / "pyproject.toml"))
    layers = "\n".join(next(c["layers"] for c in options.contracts_options if c["type"] == "layers"))
    names = [path.name for path in (ROOT / "src/ottla").iterdir()]
    rooms = {name.removesuffix(".py") for name in names if not name.startswith(("_", "."))}
    rooms -= {"py.typed", "demo"}
    missing = {room for room in rooms if f"ottla.{room}" not in layers}
    assert not missing, f"name these in the layers of pyproject.toml: {sorted(missing)}"


@pytest.mark.parametrize("module", ["ottla", "ottla.records", "ottla.protocol"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_every_file_opens_with_its_story(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "a module starts with what it is for"
