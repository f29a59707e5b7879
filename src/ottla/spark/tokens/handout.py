"""From the driver's Python process to the queries: a file in the directory that Spark made for the driver of this job.

1. Sources and sinks live in other processes of the driver. Spark tells them one thing that they have in common with the
   driver's own process: the directory for files of the job, which only its user may read. Executors on other machines
   have directories of their own. The file has tokens only, and is readable by its owner only.
2. The file is read whenever a query or a batch is planned, so that what is planned gets the token of now.
3. A token is for brokers whose address matches the pattern of its cluster; two tokens for one broker are an error.
4. As with Spark's connector the token says how to log in (sasl.mechanism, sasl.jaas.config) and, unless the query says
   it, by which protocol. A query that has a login of its own besides is refused: its options travel to the executors.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.client.security_settings import SecuritySettings
from ottla.light_dataclasses import dataclass, field, replace
from ottla.spark.option_table import InvalidOption
from ottla.spark.tokens.clusters import is_for_one_of

if TYPE_CHECKING:
    from ottla.spark.sink.options import SinkOptions
    from ottla.spark.source.options import SourceOptions

FILE_NAME: Final = "ottla-kafka-tokens.json"
PRIVATE: Final = 0o600

Options = TypeVar("Options", "SourceOptions", "SinkOptions")


@dataclass(frozen=True, slots=True)
class HandedToken:
    """What a query needs of a token; `jaas_config` has its password."""

    cluster: str
    pattern: str
    security_protocol: str
    mechanism: str
    jaas_config: str = field(repr=False)

    def is_for(self, bootstrap_servers: str) -> bool:
        return is_for_one_of(bootstrap_servers, self.pattern)


# --- the file --------------------------------------------------------------------------------------------------------


def write_tokens(directory: Path, tokens: Iterable[HandedToken]) -> None:
    """Put the tokens there, all at once; FileNotFoundError when the directory is gone."""
    text = json.dumps([asdict(each) for each in tokens])
    new = directory / f".{FILE_NAME}.new"
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "w") as file:
        file.write(text)
    new.replace(directory / FILE_NAME)


def remove_tokens(directory: Path) -> None:
    """Nobody hands them out any more."""
    with contextlib.suppress(FileNotFoundError):
        (directory / FILE_NAME).unlink()


def read_tokens(directory: Path) -> tuple[HandedToken, ...]:
    """The tokens that are there now; none when nobody hands them out."""
    try:
        text = (directory / FILE_NAME).read_text()
    except FileNotFoundError:
        return ()
    return tuple(HandedToken(**each) for each in json.loads(text))


def _tokens_here() -> tuple[HandedToken, ...]:
    """The tokens of the job of this process: the driver's Python, or one that Spark made for a source or a sink."""
    if "pyspark" not in sys.modules:
        return ()  # nobody has begun a job in this process, and to load it takes a while
    from pyspark import SparkFiles

    if not SparkFiles._is_running_on_worker and SparkFiles._sc is None:
        return ()
    directory = Path(SparkFiles.getRootDirectory())
    # The source of a stream has a directory of its own in that of the job.
    return read_tokens(directory) or read_tokens(directory.parent)


# --- from tokens to settings -----------------------------------------------------------------------------------------


def with_login(options: Options) -> Options:
    """The options with a login by a token, if there is one for their brokers. Called on the driver, when it plans."""
    return replace(options, login=login_for(options.kafka, _tokens_here()))


def login_for(kafka: Mapping[str, str], tokens: Iterable[HandedToken]) -> dict[str, str]:
    """The settings that log a client in with a token; nothing when none is for its brokers."""
    servers = kafka["bootstrap.servers"]
    found = [each for each in tokens if each.is_for(servers)]
    if not found:
        return {}
    if len(found) > 1:
        names = ", ".join(each.cluster for each in found)
        raise InvalidOption(f"the tokens of the clusters {names} are all for {servers}; say more in their .regex")
    (token,) = found
    protocol = kafka.get("security.protocol") or token.security_protocol
    if not protocol.upper().startswith("SASL"):
        return {}
    _refuse_own_login(kafka, token.cluster)
    return {"security.protocol": protocol, "sasl.mechanism": token.mechanism, "sasl.jaas.config": token.jaas_config}


def without_own_login(settings: Mapping[str, object]) -> dict[str, object]:
    """Client settings of a job as its tasks get them: without the login of the driver where tasks have a token."""
    plain = {name.replace("_", "."): name for name in settings}
    servers = str(settings[plain["bootstrap.servers"]]) if "bootstrap.servers" in plain else ""
    if not any(each.is_for(servers) for each in _tokens_here()):
        return dict(settings)
    own = {name for each, name in plain.items() if each in _LOGIN_NAMES or each.startswith("sasl.mechanism")}
    return {name: value for name, value in settings.items() if name not in own}


def _refuse_own_login(kafka: Mapping[str, str], cluster: str) -> None:
    own = sorted(name for name in kafka if name.replace("_", ".") in _LOGIN_NAMES)
    if own:
        raise InvalidOption(
            f"kafka.{own[0]} is given, and tasks log in with the token of spark.kafka.clusters.{cluster}; remove it:"
            " options of a query travel to the executors"
        )


def _login_names() -> frozenset[str]:
    """What a query could log in with by itself: the user, and every secret."""
    declared = [each for each in SecuritySettings.declared() if each.name.startswith("sasl.")]
    chosen = [each for each in declared if each.name == "sasl.username" or each.kind.name == "PASSWORD"]
    return frozenset(name for each in chosen for name in (each.name, *(alias.name for alias in each.aliases)))


_LOGIN_NAMES: Final = _login_names()
