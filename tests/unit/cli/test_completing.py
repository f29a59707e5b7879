"""What can be completed, and that the scripts are what their shells can read."""

import shutil
import subprocess

import pytest

from ottla.cli.commands.completion import SCRIPTS
from ottla.cli.main import NOUNS, main


def completed(capsys, *words):
    assert main(["--complete", *words]) == 0
    return capsys.readouterr().out.split()


def test_nouns_are_completed(capsys):
    assert set(completed(capsys, "")) == set(NOUNS)
    assert completed(capsys, "bro") == ["broker"]


def test_verbs_options_and_choices_are_completed(capsys):
    assert completed(capsys, "log", "") == ["dump", "list", "verify"]
    assert "--records" in completed(capsys, "log", "dump", "--")
    assert completed(capsys, "log", "dump", "--format", "") == ["json", "text"]


def test_where_a_file_belongs_nothing_is_offered(capsys):
    assert completed(capsys, "log", "dump", "") == []
    assert completed(capsys, "broker", "start", "--config", "") == []


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_is_what_its_shell_can_read(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert subprocess.run([shell, "-n"], input=script, text=True, capture_output=True, check=False).returncode == 0


def test_bash_completes_a_verb(tmp_path, capsys):
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    main(["completion", "bash"])
    script = capsys.readouterr().out
    asked = tmp_path / "asked"
    # The command itself is replaced, so that only the shell's half is tried: which words it hands over.
    fake = f'ottla() {{ printf "%s\\n" "$@" > {asked}; echo dump; }}\n'
    line = 'COMP_WORDS=(ottla log du); COMP_CWORD=2; _ottla; echo "${COMPREPLY[@]}"'
    out = subprocess.run(["bash", "-c", script + fake + line], text=True, capture_output=True, check=True).stdout
    assert out.strip() == "dump"
    assert asked.read_text().split() == ["--complete", "log", "du"]
