"""Makes the sync calls of the client from the asyncio ones: one text, two faces.

    python packaging/faces.py            # writes src/ottla/client/*/sync_calls.py again; `make faces`
    python packaging/faces.py --check    # says which of them is stale, and fails; part of `make check`

The asyncio text is the source. `async` and `await` are taken out, the words of PAIRS are exchanged (in code, docstrings
and comments alike), and ruff sorts and formats. It works on tokens, not on a syntax tree, so comments stay where they
are. Nothing else is changed: what the two faces do differently stands in files of their own, by hand
(docs/decisions/0243).
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CLIENT: Final = ROOT / "src/ottla/client"
HEADER: Final = "# Made from {source} by `make faces` (packaging/faces.py). Change that file, not this one.\n"

WORDS: Final = {
    r"AsyncGenerator\[(\w+), None\]": r"Generator[\1, None, None]",
    r"AsyncGenerator": "Generator",
    r"AsyncIterator": "Iterator",
    r"asynccontextmanager": "contextmanager",
    r"__a(enter|exit|iter)__": r"__\1__",
    r"another task": "another thread",
}
"""What is called differently in both worlds, everywhere; a pattern of whole words, and what stands for it."""

PAIRS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "producer/async_calls.py": (
        "producer/sync_calls.py",
        {"AsyncProducerCalls": "ProducerCalls", "AsyncHotPath": "HotPath", "AsyncProducer": "Producer"},
    ),
    "consumer/async_calls.py": (
        "consumer/sync_calls.py",
        {
            "AsyncConsumerCalls": "ConsumerCalls",
            "TaskWaits": "ThreadWaits",
            "client.task_waits": "client.thread_waits",
            "called, or awaited, by": "called by",
        },
    ),
    "share/async_calls.py": (
        "share/sync_calls.py",
        {
            "AsyncShareCalls": "ShareCalls",
            "TaskWaits": "ThreadWaits",
            "client.task_waits": "client.thread_waits",
            "AsyncWorkers": "Workers",
            "async_workers": "workers",
            r"Awaitable\[object\]": "object",
            "Await `handler": "Call `handler",
            "so many tasks": "so many threads",
        },
    ),
    "share/async_workers.py": (
        "share/workers.py",
        {
            "AsyncWorkers": "Workers",
            "AsyncShareCalls": "ShareCalls",
            "share.async_calls": "share.sync_calls",
            "TaskHands": "ThreadHands",
            "share.task_hands": "share.thread_hands",
            r"Awaitable\[object\]": "object",
        },
    ),
}
"""Source, what is made of it, and the words that only they need."""


def sync_text(text: str, words: Mapping[str, str]) -> str:
    """The text without `async` and `await`, and with the other words."""
    lines = io.StringIO(text).readlines()
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(text).readline))):
        if token.type == tokenize.NAME and token.string in ("async", "await"):
            row, start = token.start[0] - 1, token.start[1]
            line = lines[row]
            lines[row] = line[:start] + line[token.end[1] :].removeprefix(" ")
    found = "".join(lines)
    for pattern, word in {**WORDS, **words}.items():
        found = re.sub(rf"(?<!\w){pattern}(?!\w)", word, found)
    return found


def formatted(text: str, name: str) -> str:
    """As ruff would leave it: other words sort and fill lines differently, and some are not needed any more."""
    for command in (["check", "--quiet", "--select=I,F401", "--fix"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, f"--stdin-filename=src/ottla/client/{name}", "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


def made() -> dict[Path, str]:
    """Every made file with the text that it should have."""
    found = {}
    for source, (target, words) in PAIRS.items():
        text = HEADER.format(source=Path(source).name) + sync_text((CLIENT / source).read_text(), words)
        found[CLIENT / target] = formatted(text, target)
    return found


def stale() -> list[Path]:
    """The made files that are not what they should be."""
    return [path for path, text in made().items() if not path.exists() or path.read_text() != text]


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the sync calls of the client from the asyncio ones.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is stale")
    if parser.parse_args().check:
        found = stale()
        for path in found:
            print(f"{path.relative_to(ROOT)} is not what its source makes: run `make faces`", file=sys.stderr)
        return 1 if found else 0
    for path, text in made().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
