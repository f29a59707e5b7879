"""The process that keeps the truth of the brokers on this machine: `python -m ottla.cli.brokers.keeper FILE [--again]`.

1. The file (JSON, readable by its owner only) says where the truth is kept and where the socket is; with whom nobody
   could log in otherwise (--secure).
2. Only one process keeps a truth: it holds a lock on the file `.lock` beside it.
3. --again: it ended, and brokers may have gone on without it; they have GRACE_MS to come back. Without it there are
   none.
4. It stops when it is told to. When the supervisor is gone, it stops when no broker is connected any more, or after
   LAST_LIMIT_S: brokers that stop in order still need it.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from ottla.cli.brokers.child import say_serving, stop_with_supervisor
from ottla.cli.output import FAILED, OK, Failure, finish

if TYPE_CHECKING:
    from ottla.cluster.store.served.kept import KeptTruth
    from ottla.cluster.store.served.kept_log import KeeperStore

LOCK: Final = ".lock"
GRACE_MS: Final = 10_000.0
LAST_LIMIT_S: Final = 60.0

log = logging.getLogger(__name__)


def main(arguments: Sequence[str]) -> int:
    return finish(lambda: _run(json.loads(Path(arguments[0]).read_text("utf-8")), is_again="--again" in arguments))


def _run(found: dict[str, Any], *, is_again: bool) -> int:
    from ottla.broker.observe import log_lines
    from ottla.clock import SystemClock

    log_lines.configure(
        level=found["log_level"],
        form=found["log_format"],
        stream=sys.stderr,
        monotonic_ms=SystemClock().monotonic_ms,
        process="metadata",
    )
    directory = Path(found["directory"])
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / LOCK).open("w") as lock:
        _lock(lock, directory)
        store = _open(directory, found["cluster_id"])
        try:
            return asyncio.run(_serve(store, found, is_again=is_again))
        finally:
            store.close()


def _lock(file: IO[str], directory: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Failure(
            f"brokers with data in {directory.parent} run already, or are just stopping. Wait for them, or choose "
            "another directory with --data."
        ) from None


def _open(directory: Path, cluster_id: str | None) -> KeeperStore:
    from ottla.cluster.features import first_features
    from ottla.cluster.store.served.kept_log import KeeperStore, found_cluster_id
    from ottla.cluster.store.shared import take_in
    from ottla.storage.files import DiskFiles
    from ottla.values import random_uuid, uuid_to_text

    files = DiskFiles()
    chosen = cluster_id or found_cluster_id(files, directory) or uuid_to_text(random_uuid(os.urandom))
    return KeeperStore(directory, chosen, files=files, first=first_features(), apply_all=take_in)


async def _serve(store: KeeperStore, found: dict[str, Any], *, is_again: bool) -> int:
    from ottla.clock import SystemClock
    from ottla.cluster.store.served.kept import KeptTruth
    from ottla.cluster.store.served.server import StoreServer

    truth = KeptTruth(store, session_timeout_ms=float(found["session_timeout_ms"]))
    _keep_users(truth, found["users"])
    server = StoreServer(truth, Path(found["socket"]), SystemClock(), grace_ms=GRACE_MS if is_again else 0.0)
    stop, orphaned = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    stop_with_supervisor(orphaned)
    await server.start()
    say_serving(cluster_id=truth.truth.cluster_id)
    await _until_one(stop.wait(), server.failed.wait(), _until_unneeded(orphaned, server.all_gone))
    await server.stop()
    return FAILED if server.failed.is_set() else OK


def _keep_users(truth: KeptTruth, users: list[tuple[str, str, bool]]) -> None:
    if users:
        from ottla.broker.security.first_users import FirstUser, changes_for

        wanted = [FirstUser(name, password, replace) for name, password, replace in users]
        truth.write(changes_for(truth.truth, wanted, os.urandom), None)


async def _until_unneeded(orphaned: asyncio.Event, all_gone: asyncio.Event) -> None:
    await orphaned.wait()
    log.warning("the supervisor is gone; stopping when the brokers have")
    try:
        async with asyncio.timeout(LAST_LIMIT_S):
            await all_gone.wait()
    except TimeoutError:
        log.warning("brokers are still connected; stopping without them")


async def _until_one(*waits: Any) -> None:
    tasks = [asyncio.ensure_future(each) for each in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
