"""kafka-metadata-shell: look around in a snapshot of a cluster's metadata.

    kafka-metadata-shell --snapshot 00000000000000000155-0000000001.checkpoint ls /image/topics/byName
    kafka-metadata-shell --snapshot __cluster_metadata-0                          then commands, `exit` at the end

1. What is read is a snapshot (`*.checkpoint`), the newest one of a directory, or a log that begins at offset 0. Nothing
   is changed or locked: a snapshot that has its name is complete, so a running broker is not in the way.
2. metadata_nodes.py makes the tree, metadata_commands.py has the commands, here words become commands.
3. Commands, and what they say of wrong words, are those of Apache's shell. What is wrong there is said on the standard
   output, and the exit code is 0, as there.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.cli.kafka.ends import fail
from ottla.cli.kafka.metadata_commands import COMMANDS, Command, Shell, WrongWords, print_commands
from ottla.cli.kafka.metadata_nodes import Directory, root_node
from ottla.cli.output import OK
from ottla.cluster.metadata_log.batches import read_batches
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.raft.snapshots import SUFFIX, parse_name, read_snapshot
from ottla.storage.files import DiskFiles

USAGE: Final = "usage: kafka-metadata-shell [-h] --snapshot SNAPSHOT [command [command ...]]"
PROMPT: Final = ">> "


def run(words: Sequence[str]) -> int:
    snapshot, command = _options(words)
    if snapshot is None:
        return OK
    path = _newest(snapshot) if snapshot.is_dir() else snapshot
    if not command:
        print("Loading...")
    shell = Shell(_read(path), is_interactive=not command)
    if command:
        carry_out(shell, command)
        return OK
    print("Starting...")
    return _converse(shell)


def _options(words: Sequence[str]) -> tuple[Path | None, Sequence[str]]:
    """The snapshot, None where only help was wanted, and the command."""
    snapshot: str | None = None
    command = []
    waiting = iter(words)
    for word in waiting:
        name, has_value, text = word.partition("=")
        if word in ("-h", "--help"):
            print(f"{USAGE}\n\nThe snapshot is a file, or a directory whose newest snapshot is read. Commands:\n")
            print_commands()
            return None, ()
        if name in ("-s", "--snapshot"):
            snapshot = text if has_value else next(waiting, None)
        else:
            command.append(word)
    if not snapshot:
        fail(f"{USAGE}\nkafka-metadata-shell: error: argument --snapshot/-s is required")
    return Path(snapshot), command


def _newest(directory: Path) -> Path:
    names = [(file.id, path) for path in directory.iterdir() if (file := parse_name(path.name)) and not file.suffix]
    if not names:
        fail(f"Error: there is no snapshot (*{SUFFIX}) in {directory}")
    return max(names)[1]


def _read(path: Path) -> Directory:
    files = DiskFiles()
    if not files.exists(path):
        fail(f"Error: there is no file {path}")
    is_snapshot = path.name.endswith(SUFFIX)
    batches = read_snapshot(files, path) if is_snapshot else read_batches(files.read_bytes(path))
    loader = MetadataLoader("")
    position = loader.position
    for batch in batches:
        loader.add(batch)
        if batch.records:  # a snapshot's footer is no part of what is told
            position = loader.position
    return root_node(loader.image, position)


def _converse(shell: Shell) -> int:
    if sys.stdin.isatty():
        import readline  # noqa: F401  input() uses it then
    print("[ Kafka Metadata Shell ]")
    while not shell.has_ended:
        try:
            line = input(PROMPT)
        except EOFError:
            print()
            break
        except KeyboardInterrupt:
            print("^C")
            continue
        shell.remember(line)
        carry_out(shell, _split(line))
    return OK


def _split(line: str) -> list[str]:
    """The words; a quote that is never closed ends with the line."""
    for end in ("", '"', "'"):
        try:
            return shlex.split(line + end)
        except ValueError:
            continue
    return line.split()


def carry_out(shell: Shell, words: Sequence[str]) -> None:
    """Do what the words say, or print what is wrong with them."""
    if not any(words):
        return
    try:
        command, arguments = _parsed(words, is_interactive=shell.is_interactive)
        command.run(shell, arguments)
    except WrongWords as wrong:
        print(wrong)


def _parsed(words: Sequence[str], *, is_interactive: bool) -> tuple[Command, list[str]]:
    commands = {name: command for name, command in COMMANDS.items() if is_interactive or not command.in_shell}
    name = words[0]
    names = [name] if name in commands else [other for other in commands if other.startswith(name)]
    if len(names) > 1:
        raise WrongWords(f"ambiguous command: {name} could match {', '.join(names)}")
    if not names:
        choices = ", ".join(f"'{other}'" for other in commands)
        raise WrongWords(f"invalid choice: '{name}' (choose from {choices})")
    command = commands[names[0]]
    arguments = command.arguments(words[1:])
    if names[0] != name:
        raise WrongWords(f"invalid choice: '{name}': did you mean '{names[0]}'?")
    return command, arguments
