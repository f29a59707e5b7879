"""Manual pages are made from the commands, and man can read them."""

import shutil
import subprocess

import pytest

from ottla.cli.main import NOUNS, main
from ottla.cli.output import FAILED, OK


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("man")
    assert main(["man", "--dir", str(folder)]) == OK
    return folder


def test_every_noun_and_every_verb_has_a_page(folder):
    names = {path.name for path in folder.iterdir()}
    assert {f"ottla-{noun}.1" for noun in NOUNS} | {"ottla.1", "ottla-topic-create.1", "ottla-acl-add.1"} <= names


def test_a_page_has_usage_options_examples_and_the_way_to_others(folder):
    text = (folder / "ottla-topic-create.1").read_text()
    assert text.startswith('.TH "OTTLA\\-TOPIC\\-CREATE" "1" "" "ottla ')
    for part in (".SH NAME", ".SH SYNOPSIS", ".SH CONNECTION", ".SH EXAMPLES", "\\fBottla\\-topic\\fR(1)"):
        assert part in text
    assert "\\fB\\-p, \\-\\-partitions N\\fR\nhow many" in text
    assert "\\fBottla\\-topic\\-create\\fR(1)" in (folder / "ottla-topic.1").read_text()


def test_the_same_commands_make_the_same_pages(folder, tmp_path):
    main(["man", "--dir", str(tmp_path)])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in tmp_path.iterdir()
    }


def test_one_page_is_printed_and_a_wrong_one_is_refused(capsys, folder):
    assert main(["man", "topic", "create"]) == OK
    assert capsys.readouterr().out == (folder / "ottla-topic-create.1").read_text()
    assert main(["man"]) == OK
    assert capsys.readouterr().out == (folder / "ottla.1").read_text()
    assert main(["man", "topic", "craete"]) == FAILED
    assert "there is no command topic craete" in capsys.readouterr().err


def test_troff_reads_every_page_without_a_warning(folder):
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    files = sorted(map(str, folder.iterdir()))
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", *files], capture_output=True, text=True, check=False)
    assert done.stderr == ""
