"""zookeeper-shell: look at znodes and change them, one command or several from standard input.

    zookeeper-shell localhost:2181 ls /brokers/ids
    zookeeper-shell localhost:2181                      then a command on each line, `quit` at the end

It needs kazoo (pip install 'ottla[zookeeper]'). -zk-tls-config-file is not read.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ottla.cli.kafka.ends import fail, warn
from ottla.cli.output import FAILED, OK

USAGE: Final = "USAGE: zookeeper-shell zookeeper_host:port[/path] [args...]"
CONNECT_S: Final = 30.0


def run(words: Sequence[str]) -> int:
    if not words or words[0].startswith("-"):
        print(USAGE)
        return FAILED
    try:
        from kazoo.client import KazooClient
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError:
        fail("zookeeper-shell needs kazoo: pip install 'ottla[zookeeper]'")
    print(f"Connecting to {words[0]}")
    client = KazooClient(hosts=words[0], timeout=CONNECT_S)
    try:
        client.start(timeout=CONNECT_S)
    except KazooTimeoutError:
        fail(f"Could not connect to {words[0]} within {CONNECT_S:.0f} s")
    print("\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null")
    try:
        return _carry_out(client, list(words[1:])) if len(words) > 1 else _converse(client)
    finally:
        client.stop()
        client.close()


def _converse(client: Any) -> int:
    """A command for each line of standard input; one that fails does not end the others."""
    prompt = sys.stdin.isatty()
    if prompt:
        print("Welcome to ZooKeeper!")
    while True:
        if prompt:
            print("> ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            return OK
        words = shlex.split(line)
        if words[:1] in (["quit"], ["close"]):
            return OK
        if words:
            _carry_out(client, words)


def _carry_out(client: Any, words: list[str]) -> int:
    from kazoo import exceptions

    name, *rest = words
    if name not in COMMANDS:
        warn(f"Command not found: Command not found {name}\nthere is {', '.join(COMMANDS)}, quit")
        return FAILED
    try:
        COMMANDS[name](client, rest)
    except exceptions.NoNodeError:
        warn(f"Node does not exist: {_path(rest)}")
    except exceptions.NodeExistsError:
        warn(f"Node already exists: {_path(rest)}")
    except exceptions.NotEmptyError:
        warn(f"Node not empty: {_path(rest)}")
    except exceptions.BadVersionError:
        warn(f"version No is not valid : {_path(rest)}")
    except exceptions.NoAuthError:
        warn(f"Insufficient permission : {_path(rest)}")
    except (IndexError, ValueError) as error:
        warn(f"{name}: {error}")
    else:
        return OK
    return FAILED


def _path(words: Sequence[str]) -> str:
    return next((word for word in words if word.startswith("/")), "")


def _flags(words: Sequence[str]) -> set[str]:
    return {word for word in words if word.startswith("-")}


def _plain(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]


# --- the commands ----------------------------------------------------------------------------------------------------


def _ls(client: Any, words: Sequence[str]) -> None:
    path = _plain(words)[0]
    if "-R" in _flags(words):
        for each in _under(client, path):
            print(each)
        return
    children, stat = client.get_children(path, include_data=True)
    print(f"[{', '.join(sorted(children))}]")
    if "-s" in _flags(words):
        _print_stat(stat)


def _under(client: Any, path: str) -> list[str]:
    found = [path]
    for child in sorted(client.get_children(path)):
        found += _under(client, f"{path.rstrip('/')}/{child}")
    return found


def _get(client: Any, words: Sequence[str]) -> None:
    data, stat = client.get(_plain(words)[0])
    print("null" if data is None else data.decode("utf-8", "replace"))
    if "-s" in _flags(words):
        _print_stat(stat)


def _stat(client: Any, words: Sequence[str]) -> None:
    _print_stat(client.get(_plain(words)[0])[1])


def _print_stat(stat: Any) -> None:
    for name, number in (("cZxid", stat.czxid), ("ctime", stat.ctime), ("mZxid", stat.mzxid), ("mtime", stat.mtime)):
        print(f"{name} = {hex(number) if name.endswith('id') else _date(number)}")
    print(f"pZxid = {hex(stat.pzxid)}")
    print(f"cversion = {stat.cversion}\ndataVersion = {stat.version}\naclVersion = {stat.aversion}")
    print(f"ephemeralOwner = {hex(stat.ephemeralOwner)}")
    print(f"dataLength = {stat.dataLength}\nnumChildren = {stat.numChildren}")


def _date(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")


def _create(client: Any, words: Sequence[str]) -> None:
    path, *content = _plain(words)
    flags = _flags(words)
    data = " ".join(content).encode()
    made = client.create(path, data, ephemeral="-e" in flags, sequence="-s" in flags)
    print(f"Created {made}")


def _set(client: Any, words: Sequence[str]) -> None:
    path, content = _plain(words)[:2]
    client.set(path, content.encode())


def _delete(client: Any, words: Sequence[str]) -> None:
    client.delete(_plain(words)[0])


def _delete_all(client: Any, words: Sequence[str]) -> None:
    client.delete(_plain(words)[0], recursive=True)


def _get_acl(client: Any, words: Sequence[str]) -> None:
    for acl in client.get_acls(_plain(words)[0])[0]:
        letters = "".join(letter for place, letter in enumerate("rwcda") if acl.perms & (1 << place))
        print(f"'{acl.id.scheme},'{acl.id.id}\n: {letters}")


COMMANDS: Final[dict[str, Callable[[Any, Sequence[str]], None]]] = {
    "ls": _ls,
    "get": _get,
    "stat": _stat,
    "create": _create,
    "set": _set,
    "delete": _delete,
    "deleteall": _delete_all,
    "getAcl": _get_acl,
}
