"""The fenced blocks of a Markdown file, each with its kind and its line.

1. A block begins with a line of three backticks and a word, its kind, which decides what the test does (KINDS).
2. A fence without a word, or with a word that is not in KINDS, is an error: nobody would notice that it is not tried.
3. Fences may be indented, as in lists; the same indentation is taken off the block.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

KINDS = {
    "python": "run in order, in one namespace for the document; with pytest if it has a test",
    "sh": "run by bash, with every command of ours as it stands",
    "yaml": "a pipeline file: checked as `ottla pipeline dry-run` does; after `# cluster.yml` one of `ottla apply`",
    "json": "parsed",
    "properties": "written under the name in its first line, `# name.properties`, and checked as settings",
    "text": "shows something; not run",
}
FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>.*)$")


class UnknownKind(Exception):
    """A fence whose kind no test knows."""


@dataclass(frozen=True)
class Block:
    document: str
    line: int
    kind: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"


def blocks_of(path: Path, name: str) -> list[Block]:
    found: list[Block] = []
    opened: tuple[int, str] | None = None
    inside: list[str] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        fence = FENCE.match(line)
        if fence is None:
            inside.append(line)
        elif opened is None:
            opened, inside = (number, fence["kind"].strip()), []
        else:
            found.append(_block(name, *opened, inside))
            opened = None
    if opened is not None:
        raise UnknownKind(f"{name}:{opened[0]}: this fence has no end")
    return found


def _block(name: str, line: int, kind: str, inside: list[str]) -> Block:
    if kind not in KINDS:
        raise UnknownKind(f"{name}:{line}: a fence of kind {kind!r}; there is {', '.join(KINDS)}")
    return Block(name, line, kind, textwrap.dedent("\n".join(inside)) + "\n")
