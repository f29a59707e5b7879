"""Whatever the documents tell a reader to type works: every fenced block of README.md and docs/ is run, or is `text`.

A broker of its own for each document that starts none itself, and a process that does what the document says from top
to bottom (reader.py has the rules, blocks.py the kinds). No document needs anything that is not in it.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.conformance.our_broker import BrokerProcess, free_ports
from tests.documents.blocks import KINDS, UnknownKind, blocks_of
from tests.documents.reader import OTHER, SERVES
from tests.patience import HANG_S
from tests.spark.running import why_not

from ottla.cli.kafka.tools import TOOLS

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"]
DOCUMENTS += sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))
DOCUMENTS += sorted(f"docs/tutorials/{path.name}" for path in (ROOT / "docs/tutorials").glob("*.md"))
# What they show is also in docs/pipelines.md, and in tests of Spark and the registry; a Java machine more would take
# half a minute.
LONG = ("docs/tutorials/schemas.md", "docs/tutorials/spark-pipeline.md")
RUNNABLE = re.compile(r"^ *```(python|sh|yaml|json|properties)$", re.MULTILINE)
RUN = [name for name in DOCUMENTS if RUNNABLE.search((ROOT / name).read_text("utf-8"))]
USES_SPARK = re.compile(r"ottla\.spark|ottla (pipeline|job) ")
TAIL = 6_000
NOISE = ("Traceback", "BrokenPipe")

# `ottla broker start` of a document runs until it is ready and is stopped then: its reader has another terminal.
COMMANDS = {
    "start-until-ready": """\
import subprocess, sys
command = [sys.executable, "-m", "ottla", *sys.argv[1:]]
command += ["--listen", "127.0.0.1:0", "--set", "ottla.admin.listener=127.0.0.1:0"]
with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as broker:
    seen = []
    for line in broker.stdout:
        seen.append(line)
        if "is ready at" in line and not any("is ready at" in each for each in seen[:-1]):
            broker.terminate()
code = broker.returncode
sys.exit(code if any("is ready at" in line for line in seen) else "".join(seen))
""",
    "make": f"""\
import os, sys
os.execv("/usr/bin/env", ["env", "PATH=" + os.environ["OUTER_PATH"], "make", "-n", "-C", {str(ROOT)!r}, *sys.argv[1:]])
""",
    "pip": f"""\
import re, sys, tomllib
known = tomllib.load(open({str(ROOT / "pyproject.toml")!r}, "rb"))["project"]["optional-dependencies"]
asked = re.findall(r"\\[(.*?)\\]", " ".join(sys.argv[1:]))
sys.exit(f"no such extra: {{asked}}" if any(each not in known for group in asked for each in group.split(",")) else 0)
""",
}
# By the shell: Python would have to start twice for every command of a document.
SHELL_COMMANDS = {
    "ottla": """\
[ "$1 $2" = "broker start" ] && exec start-until-ready "$@"
exec {} -m ottla "$@"
""",
    "python": 'exec {} "$@"\n',
}


def test_every_fence_has_a_kind(tmp_path: Path) -> None:
    for name in DOCUMENTS:
        blocks_of(ROOT / name, name)
    for kind in ("", "pyhton"):
        (tmp_path / "bad.md").write_text(f"```{kind}\nx\n```\n")
        with pytest.raises(UnknownKind, match=r"bad\.md:1"):
            blocks_of(tmp_path / "bad.md", "bad.md")
    assert "text" in KINDS


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_command_hides_in_an_indented_block(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert re.findall(r"^    (?:ottla|make|pip|python) .*", text, re.MULTILINE) == []


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in RUN])
def test_what_a_document_says_works(name: str, tmp_path: Path) -> None:
    text = (ROOT / name).read_text("utf-8")
    if USES_SPARK.search(text) and (reason := why_not()) is not None:
        pytest.skip(reason)
    read_beside_brokers(name, tmp_path)


def read_beside_brokers(name: str, tmp_path: Path, python: str | None = None) -> None:
    """Read a document whose cluster, and the other one that it may name, are there."""
    text = (ROOT / name).read_text("utf-8")
    scratch = tmp_path / "reader"
    scratch.mkdir()
    broker, admin, other, registry = (f"127.0.0.1:{port}" for port in free_ports(4))
    with ExitStack() as stack:
        if name not in SERVES:
            first = stack.enter_context(BrokerProcess(tmp_path / "broker"))
            broker, admin = first.bootstrap_servers, first.admin_address
            (scratch / "data").symlink_to(first.data)
        if OTHER in text:
            other = stack.enter_context(BrokerProcess(tmp_path / "other")).bootstrap_servers
        read(name, scratch, [broker, admin, other, registry], python)


def read(name: str, scratch: Path, addresses: list[str], python: str | None = None) -> None:
    """Read a document with this Python, or with another one that has ottla installed."""
    command = [python or sys.executable, "-m", "tests.documents.reader", name, *addresses]
    with (scratch.parent / "said.txt").open("w") as said:
        process = subprocess.Popen(
            command,
            cwd=scratch,
            env=environment(scratch, addresses[0], python),
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            code = process.wait(6 * HANG_S)
        finally:
            end_all_of(process)
    text = (scratch.parent / "said.txt").read_text(errors="replace")
    assert code == 0, text[-TAIL:]
    for noise in NOISE:
        assert noise not in text, text[-TAIL:]


def end_all_of(process: subprocess.Popen[bytes]) -> None:
    """The process and whatever it left running: all are in a session of their own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def environment(scratch: Path, servers: str, python: str | None) -> dict[str, str]:
    interpreter, source = python or sys.executable, [] if python else [str(ROOT / "src")]
    commands = scratch.parent / "bin"
    commands.mkdir()
    kafka = {
        name: f"import sys\nfrom ottla.cli.kafka.tools import main\nsys.exit(main({name!r}, sys.argv[1:]))\n"
        for name in TOOLS
    }
    in_python = {name: f"#!{interpreter}\n{program}" for name, program in (COMMANDS | kafka).items()}
    for name, text in (
        in_python | {name: f"#!/bin/sh\n{program.format(interpreter)}" for name, program in SHELL_COMMANDS.items()}
    ).items():
        path = commands / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    # A document has twenty records: two tasks after a shuffle are enough, and nobody looks at Spark's web pages.
    (commands / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 2\nspark.ui.enabled false\n")
    return {
        **os.environ,
        "HOME": str(scratch),
        "PATH": f"{commands}:{os.environ['PATH']}",
        "OUTER_PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(ROOT), *source, os.environ.get("PYTHONPATH", "")]),
        "OTTLA_BOOTSTRAP_SERVERS": servers,
        "SPARK_CONF_DIR": str(commands),
    }
