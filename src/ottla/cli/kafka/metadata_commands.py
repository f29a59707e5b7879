"""The commands of kafka-metadata-shell: walks through the tree of metadata_nodes.py.

A path is absolute or from where somebody is, and each part of it may have ?, * and {one,other}. What is asked in vain
is said on the standard output, as everything in Apache's shell.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ottla.cli.kafka.metadata_nodes import Directory, Node
from ottla.light_tuples import NamedTuple

MINIMUM_COLUMN: Final = 4


class Shell:
    """Where somebody is in the tree, and what was asked."""

    def __init__(self, root: Directory, *, is_interactive: bool) -> None:
        self.root = root
        self.path: tuple[str, ...] = ()
        self.history: list[str] = []
        self.has_ended = False
        self.is_interactive = is_interactive

    def remember(self, line: str) -> None:
        if line.strip() and self.history[-1:] != [line]:
            self.history.append(line)

    def find(self, path: str) -> Iterator[tuple[tuple[str, ...], Node]]:
        """All that the path names, with what it is called."""
        parts: list[str] = []
        for part in (path if path.startswith("/") else "/".join((*self.path, path))).split("/"):
            if part == "..":
                del parts[-1:]
            elif part not in ("", "."):
                parts.append(part)
        return _matching(self.root, (), parts)


class WrongWords(Exception):
    """What was asked makes no sense."""


def _matching(node: Node, path: tuple[str, ...], parts: Sequence[str]) -> Iterator[tuple[tuple[str, ...], Node]]:
    if not parts:
        yield path, node
        return
    if isinstance(node, str):
        return
    pattern = _pattern(parts[0])
    names = sorted(filter(pattern.fullmatch, node)) if pattern else [parts[0]] if parts[0] in node else []
    for name in names:
        yield from _matching(node[name](), (*path, name), parts[1:])


def _pattern(glob: str) -> re.Pattern[str] | None:
    """None for a part that is only a name."""
    groups = re.sub(r"\{[^{}]*\}", "", glob)
    if (not re.search(r"[*?]", groups) and groups == glob) or "{" in groups:
        return None
    text, depth = "", 0
    for character in glob:
        match character:
            case "{":
                text, depth = text + "(?:", depth + 1
            case "}" if depth:
                text, depth = text + ")", depth - 1
            case "," if depth:
                text += "|"
            case "*":
                text += ".*"
            case "?":
                text += "."
            case _:
                text += re.escape(character)
    return re.compile(text, re.DOTALL)


# --- commands --------------------------------------------------------------------------------------------------------


def _cat(shell: Shell, targets: Sequence[str]) -> None:
    for target in targets:
        nodes = [node for _, node in shell.find(target)]
        for node in nodes:
            print(node if isinstance(node, str) else f"cat: {target}: Is a directory")
        if not nodes:
            print(f"cat: {target}: No such file or directory.")


def _tree(shell: Shell, targets: Sequence[str]) -> None:
    for target in targets:
        nodes = [node for _, node in shell.find(target)]
        for node in nodes:
            _print_tree(node, "")
        if not nodes:
            print(f"tree: {target}: No such file or directory.")


def _print_tree(node: Node, indent: str) -> None:
    if isinstance(node, str):
        print(indent + node)
        return
    for name in sorted(node):
        print(f"{indent}{name}:")
        _print_tree(node[name](), indent + "  ")


def _find(shell: Shell, targets: Sequence[str]) -> None:
    for target in targets or ["."]:
        nodes = [node for _, node in shell.find(target)]
        for node in nodes:
            _print_paths(node, target)
        if not nodes:
            print(f"find: {target}: no such file or directory.")


def _print_paths(node: Node, path: str) -> None:
    print(path)
    if not isinstance(node, str):
        for name in sorted(node):
            _print_paths(node[name](), path + name if path == "/" else f"{path}/{name}")


def _cd(shell: Shell, targets: Sequence[str]) -> None:
    target = targets[0] if targets else "/"
    nodes = list(shell.find(target))
    for path, node in nodes:
        if isinstance(node, str):
            print(f"cd: {target}: not a directory.")
        else:
            shell.path = path
    if not nodes:
        print(f"cd: {target}: no such directory.")


def _ls(shell: Shell, targets: Sequence[str]) -> None:
    texts: list[str] = []
    directories: list[tuple[str, list[str]]] = []
    for target in targets or ["."]:
        nodes = list(shell.find(target))
        for path, node in nodes:
            name = path[-1] if path else "/"
            if isinstance(node, str):
                texts.append(name)
            else:
                directories.append((name, sorted(node)))
        if not nodes:
            print(f"ls: {target}: no such file or directory.")
    width = shutil.get_terminal_size().columns if shell.is_interactive and sys.stdout.isatty() else None
    print_names(texts, width)
    is_first = not texts
    for name, names in directories:
        if names and (texts or len(directories) > 1):
            print(f"{name}:" if is_first else f"\n{name}:")
        is_first = False
        print_names(names, width)


def print_names(names: Sequence[str], width: int | None) -> None:
    """In as many columns as there is room for; in one where nobody looks on."""
    columns = max(1, width // MINIMUM_COLUMN) if width else 1
    while columns > 1 and not _fits(names, columns, width or 0):
        columns -= 1
    rows = -(-len(names) // columns)
    widths = [max(map(len, names[first : first + rows])) + 2 for first in range(0, len(names), rows or 1)]
    for row in range(rows):
        line = "".join(name.ljust(wide) for name, wide in zip(names[row::rows], widths, strict=False))
        print(line if columns > 1 else names[row])


def _fits(names: Sequence[str], columns: int, width: int) -> bool:
    rows = -(-len(names) // columns)
    starts = range(0, len(names), rows or 1)
    return len(starts) == columns and sum(max(map(len, names[at : at + rows])) + 2 for at in starts) <= width


def _pwd(shell: Shell, _: Sequence[str]) -> None:
    print("/" + "/".join(shell.path))


def _exit(shell: Shell, _: Sequence[str]) -> None:
    shell.has_ended = True


def _history(shell: Shell, counts: Sequence[str]) -> None:
    try:
        count = int(counts[0]) if counts else len(shell.history)
    except ValueError:
        text = counts[0]
        raise WrongWords(
            f"argument numEntriesToShow: could not convert '{text}' to Integer (For input string: \"{text}\")"
        ) from None
    first = max(0, len(shell.history) - max(0, count))
    for number, line in enumerate(shell.history[first:], first):
        print(f"{number:5}  {line}")


def _help(_shell: Shell, _: Sequence[str]) -> None:
    print("Welcome to the Apache Kafka metadata shell.\n")
    print_commands()


def print_commands() -> None:
    for name, command in COMMANDS.items():
        print(f"    {name:21}{command.description}")


def _man(_shell: Shell, names: Sequence[str]) -> None:
    command = COMMANDS.get(names[0])
    if command is None:
        print(f"man: unknown command {names[0]}. Type help to get a list of commands.")
        return
    print(f"{names[0]}: {command.description}\n\nusage: {names[0]} {command.usage}".rstrip())
    if command.argument:
        print(f"\npositional arguments:\n  {command.argument:23}{command.about}")


class Command(NamedTuple):
    """A command, and the words that follow it: none (`least` and `most` are 0), or from `least` to `most`."""

    run: Callable[[Shell, Sequence[str]], None]
    description: str
    argument: str = ""
    about: str = ""
    least: int = 0
    most: int = 0
    in_shell: bool = False
    """Whether it only makes sense where somebody goes on asking."""

    @property
    def usage(self) -> str:
        if self.most == MANY:
            more = f"{self.argument} [{self.argument} ...]"
            return more if self.least else f"[{more}]"
        return self.argument if self.least else f"[{self.argument}]" if self.argument else ""

    def arguments(self, words: Sequence[str]) -> list[str]:
        at = words.index("--") if "--" in words else len(words)
        options = [word for word in words[:at] if re.match(r"-\D", word)]
        arguments = [word for word in words[:at] if word not in options] + list(words[at + 1 :])
        if len(arguments) < self.least:
            raise WrongWords("too few arguments")
        if unknown := options or arguments[self.most :]:
            raise WrongWords(f"unrecognized arguments: '{' '.join(unknown)}'")
        return [word for word in arguments if word]


MANY: Final = 1_000
COMMANDS: Final = {
    "cat": Command(
        _cat, "Show the contents of metadata files.", "targets", "The metadata files to display.", least=1, most=MANY
    ),
    "cd": Command(
        _cd, "Set the current working directory.", "target", "The directory to change to.", most=1, in_shell=True
    ),
    "exit": Command(_exit, "Exit the metadata shell.", in_shell=True),
    "find": Command(
        _find, "Search for nodes in the directory hierarchy.", "paths", "The paths to start at.", most=MANY
    ),
    "help": Command(_help, "Display this help message.", in_shell=True),
    "history": Command(
        _history,
        "Print command history.",
        "numEntriesToShow",
        "The number of entries to show.",
        most=1,
        in_shell=True,
    ),
    "ls": Command(_ls, "List metadata nodes.", "targets", "The metadata node paths to list.", most=MANY),
    "man": Command(
        _man,
        "Show the help text for a specific command.",
        "cmd",
        "The command to get help text for.",
        least=1,
        most=1,
        in_shell=True,
    ),
    "pwd": Command(_pwd, "Print the current working directory.", in_shell=True),
    "tree": Command(
        _tree,
        "Show the contents of metadata nodes in a tree structure.",
        "targets",
        "The metadata nodes to display.",
        least=1,
        most=MANY,
    ),
}
