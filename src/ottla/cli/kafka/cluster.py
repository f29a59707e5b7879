"""How a command finds its cluster: --bootstrap-server and the file of --command-config, under any of its names.

1. The file has Kafka's settings in Java's form. What Apache's tools would read from it counts here.
2. Old names of options (--consumer.config, --property, ...) still work, with the sentence of Apache's tools that they
   go away; the old and the new name together are refused.
3. Where nothing listens it is said at once in the words of Java's client, and tried for as long as Apache's tools try:
   people start a broker and a command at the same time, and rely on that (decision 0088).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ottla.cli.kafka.ends import fail, warn
from ottla.cli.kafka.parser import Options

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.values import Address

BOOTSTRAP_SETTING = "bootstrap.servers"


def file_settings(path: str) -> dict[str, object]:
    """The settings of a properties file; a file that cannot be read ends the command."""
    from pathlib import Path

    from ottla.properties import read_properties

    try:
        return dict(read_properties(Path(path)))
    except FileNotFoundError:
        fail(f"{path}\nThere is no such file.")  # Apache's say the path alone
    except OSError as error:
        fail(f"{path} ({error.strerror})")


def renamed(options: Options, old: str, new: str, lead: str, *, new_first: bool = False) -> str:
    """The name under which an option stands on the command line: the new one, or the old one with a warning."""
    if not options.has(old):
        return new
    if options.has(new):
        first, second = (new, old) if new_first else (old, new)
        options.wrong(f"Options --{first} and --{second} cannot be specified together.")
    print(f"{lead} --{old} is deprecated and will be removed in a future version. Use --{new} instead.")
    return old


def check_servers(options: Options, name: str = "bootstrap-server") -> None:
    """Refuse an address that is none."""
    text = options.value(name) or ""
    if not text.strip():
        options.wrong("Error while validating the bootstrap address\n")
    if not all(re.fullmatch(r"(?:[^:,]*://)?(?:\[?[\w%.:-]+\]?):\d+", each.strip()) for each in text.split(",")):
        options.wrong("Please provide valid host:port like host1:9091,host2:9092\n")


def settings_of(
    options: Options, config: str = "command-config", bootstrap: str = "bootstrap-server"
) -> dict[str, object]:
    """Client settings: the file, and over it the address."""
    settings: dict[str, object] = {}
    path = options.value(config)
    if path is not None:
        settings |= file_settings(path)
    servers = options.value(bootstrap)
    if servers is not None:
        settings[BOOTSTRAP_SETTING] = servers
    return settings


@contextmanager
def admin_with(settings: dict[str, object]) -> Iterator[Admin]:
    from ottla.client.admin.direct_admin import direct_admin

    with direct_admin(settings, when_refused=_say_refused) as admin:
        yield admin


def _say_refused(places: Sequence[Address], left_ms: float) -> float:
    for number, each in enumerate(places):
        warn(
            f"WARN Connection to node {-1 - number} ({each}) could not be established. Node may not be available. "
            f"Trying on for {left_ms / 1000:g} s"
        )
    return left_ms


@contextmanager
def admin_of(options: Options) -> Iterator[Admin]:
    """An admin client for as long as the command works."""
    with admin_with(settings_of(options)) as admin:
        yield admin


def pairs_of(words: Sequence[str], *, allow_missing: bool = True) -> dict[str, str]:
    """NAME=VALUE words; a value may contain `=`, and may be missing where that is allowed."""
    found = {}
    for word in words:
        name, _, text = word.partition("=")
        if not text and not allow_missing:
            raise ValueError(f"Missing value for key {name}}}")
        found[name] = text
    return found
