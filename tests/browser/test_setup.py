"""Fetching the browser, where a registry does not answer: it says which one, and what becomes of the tests."""

from __future__ import annotations

import subprocess

import pytest
from tests.browser import chromium


@pytest.fixture
def bare_machine(monkeypatch, tmp_path):
    """Nothing is installed, and every command that fetches something fails."""
    asked = []

    def fails(command, **options):
        asked.append(command)
        assert options["timeout"] <= chromium.STEP_LIMIT_S
        return subprocess.CompletedProcess(command, 100, "", "E: Unable to locate package chromium\n")

    monkeypatch.setattr(chromium.shutil, "which", lambda name: None)
    monkeypatch.setattr(chromium.subprocess, "run", fails)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return asked


def test_lists_of_packages_are_fetched_before_it_is_given_up(bare_machine, capsys):
    assert chromium.main() == 1
    assert ["install" in each or "update" in each for each in bare_machine] == [True, True]
    assert "update" in bare_machine[1]
    said = capsys.readouterr().err
    assert "the lists of Debian's packages could not be fetched: E: Unable to locate package chromium" in said
    assert "tests/browser) are skipped" in said


def test_a_command_that_hangs_or_is_not_there_is_no_crash(bare_machine, monkeypatch, capsys):
    for error in (subprocess.TimeoutExpired("apt-get", 300), FileNotFoundError("sudo")):

        def breaks(*_, error=error, **__):
            raise error

        monkeypatch.setattr(chromium.subprocess, "run", breaks)
        assert chromium.main() == 1
        assert "no browser: " in capsys.readouterr().err


def test_tests_skip_themselves_with_a_sentence(bare_machine):
    with pytest.raises(chromium.BrowserMissing, match="there is no Chromium: make setup-browser"):
        chromium.find_browser()
    with pytest.raises(chromium.BrowserMissing, match="there is no axe-core: make setup-browser"):
        chromium.axe_script()
