"""The command as a whole: help, wrong words, exit codes, and what is not imported."""

import subprocess
import sys

import pytest
from tests.patience import HANG_S

from ottla import __version__
from ottla.cli import main as main_module
from ottla.cli.main import GROUPS, NOUNS, main
from ottla.cli.output import BROKEN_PIPE, FAILED, INTERRUPTED, OK, WRONG_USAGE, Failure


def exit_code_of(words):
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


def test_help_names_every_noun_and_has_examples(capsys):
    assert exit_code_of(["--help"]) == OK
    out = capsys.readouterr().out
    assert all(noun in out for noun in NOUNS)
    assert "examples:" in out


def test_help_has_the_nouns_in_groups_a_line_each_and_the_first_steps_first(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert exit_code_of(["--help"]) == OK
    listed = capsys.readouterr().out.partition("nouns:\n")[2].partition("\nexamples:")[0]
    assert listed.startswith("  first steps\n    broker ")
    assert [line.strip() for line in listed.splitlines() if line and not line.startswith("    ")] == list(GROUPS)
    assert [line.split()[0] for line in listed.splitlines() if line.startswith("    ")] == list(NOUNS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["help"], "usage: ottla [-h]"),
        (["help", "topic"], "usage: ottla topic [-h]"),
        (["help", "topic", "create"], "usage: ottla topic create [-h]"),
        (["version"], f"ottla {__version__}"),
    ],
)
def test_help_and_version_are_words_too(words, said, capsys):
    assert exit_code_of(words) == OK
    assert capsys.readouterr().out.startswith(said)


def test_no_words_print_the_help_and_a_noun_alone_prints_its_verbs(capsys):
    assert main([]) == OK
    assert "NOUN" in capsys.readouterr().out
    assert main(["broker"]) == FAILED
    assert "start" in capsys.readouterr().out


def test_the_version_is_printed(capsys):
    assert exit_code_of(["--version"]) == OK
    assert capsys.readouterr().out == f"ottla {__version__}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["brokr", "start"], "there is no 'brokr'; did you mean 'broker'?\ntry: ottla --help\n"),
        (["broker", "strat"], "there is no 'strat'; did you mean 'start'?\ntry: ottla broker --help\n"),
        (
            ["broker", "xyz"],
            "there is no 'xyz'; there is start, stop, status, health, settings\ntry: ottla broker --help\n",
        ),
        (["broker", "start", "--nothing"], "unrecognized arguments: --nothing\ntry: ottla broker start --help\n"),
        (["topic", "create"], "the following arguments are required: TOPIC\ntry: ottla topic create --help\n"),
        (["topic", "list", "more"], "unrecognized arguments: more\ntry: ottla topic list --help\n"),
        (["produce", "t", "f", "g"], "unrecognized arguments: g\ntry: ottla produce --help\n"),
    ],
)
def test_wrong_words_end_with_2_the_nearest_and_the_help_of_the_verb(words, sentence, capsys):
    assert exit_code_of(words) == WRONG_USAGE
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (Failure("it is so, do that"), FAILED, "ottla: it is so, do that\n"),
        (KeyboardInterrupt(), INTERRUPTED, ""),
        (OSError(28, "No space left on device"), FAILED, "ottla: cannot go on: No space left on device\n"),
    ],
)
def test_failures_are_a_sentence_and_ctrl_c_is_quiet(raised, code, said, monkeypatch, capsys):
    def fail(words):
        raise raised

    monkeypatch.setattr(main_module, "_run", fail)
    assert main([]) == code
    assert capsys.readouterr() == ("", said)


def run_python(code, **options):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, **options)


def test_a_closed_pipe_is_quiet():
    code = """
import os, sys
from ottla.cli.main import main
r, w = os.pipe(); os.close(r); os.dup2(w, 1)
code = main(["broker", "settings"])
sys.exit(code)
"""
    done = run_python(code)
    assert (done.returncode, done.stderr) == (BROKEN_PIPE, "")


def test_help_imports_nothing_heavy():
    code = """
import sys
from ottla.cli.main import main
try:
    main(["--help"])
except SystemExit:
    pass
heavy = {"asyncio", "ssl", "uvloop", "ottla.broker", "ottla.storage", "ottla.records", "ottla.protocol", "dataclasses"}
print(sorted(heavy & set(sys.modules)), file=sys.stderr)
"""
    assert run_python(code).stderr == "[]\n"


def test_help_of_a_verb_imports_neither_a_loop_nor_the_broker():
    code = """
import sys
from ottla.cli.main import main
try:
    main(["broker", "start", "--help"])
except SystemExit:
    pass
print(sorted({"asyncio", "ottla.broker"} & set(sys.modules)), file=sys.stderr)
"""
    assert run_python(code).stderr == "[]\n"


def test_python_m_ottla_is_the_command():
    done = subprocess.run([sys.executable, "-m", "ottla", "--version"], capture_output=True, text=True, timeout=HANG_S)
    assert (done.returncode, done.stdout) == (0, f"ottla {__version__}\n")


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["group", "reset", "g", "--topic", "t", "--to-time", "-2h", "--execute"], "to_time", "-2h"),
        (["group", "reset", "g", "--topic", "t", "--shift-by", "-100"], "shift_by", -100),
        (["topic", "trim", "t", "--before", "-1.5d"], "before", "-1.5d"),
        (["consume", "t", "--until", "-90s", "-e"], "until", "-90s"),
        (["consume", "t", "-o", "-10", "-e"], "offset", "-10"),
    ],
)
def test_so_long_ago_is_a_value_and_not_an_option(words, name, value):
    assert getattr(main_module.make_parser(words).parse_args(words), name) == value


@pytest.mark.parametrize("noun", [noun for noun in NOUNS if noun != "completion"])
def test_the_help_of_a_noun_has_examples(noun, capsys):
    assert exit_code_of([noun, "--help"]) == OK
    assert f"  ottla {noun}" in capsys.readouterr().out.partition("examples:")[2]


def test_help_texts_are_sentences(capsys):
    assert exit_code_of(["topic", "create", "--help"]) == OK
    assert "\nMake topics.\n" in capsys.readouterr().out
    assert exit_code_of(["verify", "replicas", "--help"]) == OK
    assert "\nDo all replicas have the same records?\n" in capsys.readouterr().out


def test_a_full_disk_is_a_sentence():
    code = """
import os, sys
from ottla.cli.main import main
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
sys.exit(main(["broker", "settings"]))
"""
    ended = run_python(code)
    assert (ended.returncode, ended.stderr) == (FAILED, "ottla: cannot go on: No space left on device\n")


@pytest.mark.parametrize("words", [["--help"], ["topic", "--help"]])
def test_a_long_noun_or_verb_has_its_text_on_the_same_line(words, capsys):
    assert exit_code_of(words) == OK
    listed = capsys.readouterr().out.partition("examples:")[0]
    assert not [line for line in listed.splitlines() if line.strip() in (*NOUNS, "add-partitions")]
