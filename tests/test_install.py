"""The package installs with a C compiler and without one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.hasty_compiler import hasty_compiler

ROOT = Path(__file__).parent.parent
BUILT = {".so", ".pyd", ".c"}


@pytest.mark.long
@pytest.mark.parametrize(("compiler", "codec"), [(None, "native"), ("/no/such/compiler", "python")])
def test_it_installs_with_the_codec_that_can_be_had(compiler: str | None, codec: str, tmp_path: Path) -> None:
    if compiler is None and shutil.which("cc") is None:
        pytest.skip("no C compiler here")
    source, target = tmp_path / "source", tmp_path / "installed"
    shutil.copytree(ROOT / "src", source / "src", ignore=lambda _, names: [n for n in names if Path(n).suffix in BUILT])
    for name in ("pyproject.toml", "setup.py", "README.md"):
        shutil.copy(ROOT / name, source)
    environment = {**os.environ, **({"CC": compiler} if compiler else hasty_compiler(tmp_path))}
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", target]
    subprocess.run([*map(str, install), str(source)], env=environment, check=True)

    code = "import ottla.records as r; r.BatchBuilder().append(0, None, b'x'); print(r.CHOSEN, r.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(target)}
    environment.pop("OTTLA_RECORDS", None)
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    chosen, where = run.stdout.split()
    assert chosen == codec
    assert where.startswith(str(target))
