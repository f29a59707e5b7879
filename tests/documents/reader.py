"""Reads one document from its first line to its last and does what it says, as a newcomer would: in one process.

    python -m tests.documents.reader docs/client.md 127.0.0.1:41234 127.0.0.1:41235 127.0.0.1:41236 127.0.0.1:41237

1. Addresses and directories of the document are replaced by those of the test: `replaced` is the whole rule.
2. Python blocks share one namespace; with tests in them they are a file for pytest. Shell blocks are run line by line
   by bash, and what Spark does is run in this process, so that a document starts one Java machine at most.
3. What a newcomer would bring along is there: FILES in the working directory, BROUGHT in the cluster.
4. What would take minutes is tried in a shorter form: SHORTENED; tests that are named must be there. `make` prints what
   it would do.
5. In a document of SERVES the broker that it starts goes on running, at the document's address, until the next one is
   started: the reader has another terminal. A settings file (properties) is written under its name.
6. The first thing that fails ends the process with code 1, the place in the document and what went wrong.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.documents.blocks import Block, blocks_of

ROOT = Path(__file__).parents[2]
ON_SPARK = (["ottla", "pipeline"], ["ottla", "job"])
READY, ALL_READY = r"broker \d+ is ready at (\S+)", r"brokers are ready at (\S+)"
PYTEST = ".venv/bin/python -m pytest "
SHORTENED = {
    "python -m tests.cluster.campaign": f"cd {ROOT} && python -m tests.cluster.campaign --help; true",
}
FILES = {
    "events.txt": "".join(f"user-{number}\tpage-{number % 3}\n" for number in range(20)),
    "program.py": "import confluent_kafka, sys\nprint(confluent_kafka.__file__, sys.argv[1:])\n",
    "server.properties": "num.partitions=3\nlog.retention.hours=72\n",
}

# Another cluster, for documents that name one.
OTHER = "other:9092"

# What the reader of a document has in his cluster before he begins.
BROUGHT = {"docs/jobs.md": ("ottla produce clicks events.txt -K '\\t'", "ottla produce orders events.txt -K '\\t'")}


# Where the reader goes on using the broker that the document starts.
SERVES = (
    "docs/clusters.md",
    "docs/schema-registry.md",
    "docs/security.md",
    "docs/tutorials/cluster.md",
    "docs/tutorials/migrate-from-kafka.md",
    "docs/tutorials/schemas.md",
    "docs/tutorials/secure.md",
)


def replaced(text: str, servers: str, admin: str, other: str, registry: str) -> str:
    scratch = str(Path.cwd())
    for old, new in {
        "localhost:9092": servers,
        "127.0.0.1:9092": servers,
        "127.0.0.1:9644": admin,
        "127.0.0.1:8081": registry,
        # A service of pipelines has a door too; no document has it beside a registry.
        "127.0.0.1:9645": registry,
        "ottla pipeline serve --": f"ottla pipeline serve --listen {registry} --",
        OTHER: other,
        "/tmp/": f"{scratch}/",
        "/data/": f"{scratch}/",
    }.items():
        text = text.replace(old, new)
    return text


class Reader:
    """Does what the blocks say; the working directory is the newcomer's."""

    def __init__(self, *addresses: str, keeps_serving: bool = False) -> None:
        self._addresses = addresses
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._keeps_serving = keeps_serving
        self._broker: subprocess.Popen[bytes] | None = None

    def read(self, block: Block) -> None:
        text = replaced(block.text, *self._addresses)
        getattr(self, f"_read_{block.kind}")(block, text)

    def _read_python(self, block: Block, text: str) -> None:
        if "def test_" in text:
            tests = Path(f"test_line_{block.line}.py")
            tests.write_text(text, "utf-8")
            self._run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(tests)])
            return
        exec(compile(text, block.place, "exec"), self._names)

    def _read_sh(self, block: Block, text: str) -> None:
        for line in text.replace("\\\n", " ").splitlines():
            if line.strip():
                self.line(line)

    def line(self, line: str) -> None:
        print(f"$ {line}", flush=True)
        if line.startswith(PYTEST):
            self._find_tests(shlex.split(line.removeprefix(PYTEST), comments=True))
            return
        for long, short in SHORTENED.items():
            if line.startswith(long):
                self._run(["bash", "-euo", "pipefail", "-c", line.replace(long, short, 1)])
                return
        steps = [shlex.split(step, comments=True) for step in line.split("&&")]
        if steps[0][:1] == ["cd"]:
            os.chdir(steps[0][1])
        elif steps[0][:1] == ["export"]:
            name, _, value = steps[0][1].partition("=")
            os.environ[name] = value
        elif steps[0][:3] == ["ottla", "broker", "start"] and self._keeps_serving:
            self._serve(steps[0][3:])
        elif all(step[:2] in ON_SPARK for step in steps):
            for step in steps:
                self._in_this_process(step)
        else:
            self._run(["bash", "-euo", "pipefail", "-c", line])

    def _find_tests(self, words: list[str]) -> None:
        """They are there; to collect them would import every client and take half a minute."""
        named = [word for word in words if word.startswith("tests/")]
        missing = [word for word in named if not any(ROOT.glob(word))]
        if missing or not named:
            raise SystemExit(f"there are no such tests: {missing or words}")

    def _serve(self, words: list[str]) -> None:
        """Start the broker in place of the one before; whoever ends this process ends it too."""
        servers, admin, *others = self._addresses
        if "--brokers" in words:  # the ports that follow a free one may be taken
            servers = admin = "127.0.0.1:0"
        where = [] if "--config" in words else ["--listen", servers]
        command = [sys.executable, "-m", "ottla", "broker", "start", *words, *where]
        if self._broker is not None:
            self._broker.terminate()
            self._broker.wait()
        command += ["--set", f"ottla.admin.listener={admin}"]
        self._broker = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert self._broker.stdout is not None
        lines = []
        for line in self._broker.stdout:
            lines.append(line.decode())
            if found := re.search(READY if "--brokers" not in words else ALL_READY, lines[-1]):
                print("".join(lines), flush=True)
                self._addresses = (found[1], self._addresses[1], *others)
                os.environ["OTTLA_BOOTSTRAP_SERVERS"] = found[1]
                return
        raise SystemExit(f"the broker did not start: {''.join(lines)}")

    def _in_this_process(self, words: list[str]) -> None:
        from pyspark.sql import SparkSession

        from ottla.cli.main import main

        # A command has a session of its own. In another process it would, and with it another Java machine.
        if (session := SparkSession.getActiveSession()) is not None:
            session.stop()
        if (code := main(words[1:])) != 0:
            raise SystemExit(f"{shlex.join(words)} ended with {code}")

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{command[-1]} ended with {done.returncode}")

    def _read_yaml(self, block: Block, text: str) -> None:
        from ottla.cli.main import main

        if text.startswith("# cluster.yml\n"):
            self._read_cluster(text)
            return
        written = Path("pipeline.yml")
        written.write_text(text, "utf-8")
        if main(["pipeline", "dry-run", str(written), "--no-spark"]) != 0:
            raise SystemExit("this is no pipeline")

    def _read_cluster(self, text: str) -> None:
        """A file of `ottla apply`; the commands after it use it."""
        from ottla.cli.apply.desired import desired_of
        from ottla.cli.apply.reading import read_text

        Path("cluster.yml").write_text(text, "utf-8")
        desired_of(read_text(text, ".yml", "cluster.yml"))

    def _read_json(self, block: Block, text: str) -> None:
        json.loads(text)

    def _read_properties(self, block: Block, text: str) -> None:
        from ottla.broker.settings import BrokerSettings
        from ottla.client.settings import ClientSettings
        from ottla.properties import parse_properties

        name = text.splitlines()[0].removeprefix("# ").split()[0]
        if not name.endswith(".properties"):
            raise SystemExit("the first line of a settings file is `# name.properties`")
        Path(name).write_text(text, "utf-8")
        settings = parse_properties(text)
        if name.startswith("server"):
            BrokerSettings(settings)
        else:
            ClientSettings({"bootstrap.servers": "localhost:9092", **settings})

    def _read_text(self, block: Block, text: str) -> None:
        pass


def main(document: str, *addresses: str) -> int:
    for name, text in FILES.items():
        Path(name).write_text(text, "utf-8")
    reader = Reader(*addresses, keeps_serving=document in SERVES)
    for line in BROUGHT.get(document, ()):
        reader.line(line)
    for block in blocks_of(ROOT / document, document):
        print(f"--- {block.place} ({block.kind})", flush=True)
        try:
            reader.read(block)
        except BaseException:
            traceback.print_exc()
            print(f"FAILED at {block.place}", flush=True)
            return 1
    return 0


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a session of Spark, or a query that the document left running, must not keep us
