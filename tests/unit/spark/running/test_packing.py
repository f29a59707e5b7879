"""The archive for executors: what is in it, and that the same packages make the same bytes."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from ottla.spark.running import packing
from ottla.spark.running.packing import NothingToPack, pack, requirements


@pytest.fixture
def without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is large, and packed as every other."""
    monkeypatch.setattr(packing, "ALWAYS", ())
    monkeypatch.setattr(packing, "PACK_LEVEL", 1)


def test_a_bare_python_can_use_what_was_packed(without_pyarrow: None, tmp_path: Path) -> None:
    names = [each.partition("==")[0].lower() for each in pack(tmp_path / "packed.tar.gz")]
    assert {"ottla", "crc32c", "cramjam"} <= set(names)
    assert not {"pyspark", "pytest"} & set(names)
    with tarfile.open(tmp_path / "packed.tar.gz") as archive:
        members = archive.getnames()
        archive.extractall(tmp_path / "packages", filter="data")
    assert not [name for name in members if name.endswith((".pyc", ".pyx", ".h")) or "/tests/" in name]
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'packages')!r})\n"
        "import ottla, crc32c, ottla.records, ottla.client.consumer.range_reader, ottla.client.producer.producer\n"
        "print(ottla.__file__, ottla.records.CHOSEN)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    place, codec = done.stdout.split()
    assert Path(place).is_relative_to(tmp_path / "packages")
    import ottla.records

    assert codec == ottla.records.CHOSEN, "native code travels along"


def test_the_same_packages_make_the_same_bytes(
    without_pyarrow: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packing, "requirements", lambda names: [])  # ottla alone is enough for this
    for name in ("one.tar.gz", "two.tar.gz"):
        pack(tmp_path / name)
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.tar.gz", "two.tar.gz"]


def test_requirements_come_along_but_extras_do_not() -> None:
    names = {each.metadata["Name"].lower() for each in requirements(["ottla"])}
    assert "cramjam" in names
    assert "pyspark" not in names
    assert "fastavro" not in names


def test_what_is_not_installed_is_named() -> None:
    with pytest.raises(NothingToPack, match="no-such-package"):
        requirements(["no-such-package"])
