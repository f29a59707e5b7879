"""A PostgreSQL of a test's own, or the reason why there is none: `apt install postgresql` gives it to a Debian machine.

`postgres` is a fixture of tests that take it in; it is a server on a free port, with the database `postgres` and no
password. A server of root's is refused by PostgreSQL, so root starts it as the user that Debian's package has made.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.patience import HANG_S

HOW = "apt install postgresql"


def programs() -> Path | None:
    """Where initdb and postgres are: Debian keeps them out of the path."""
    found = [
        *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True),
        Path(shutil.which("initdb") or "").parent,
    ]
    return next((path for path in found if (path / "initdb").is_file() and (path / "postgres").is_file()), None)


def why_not() -> str | None:
    """Why there is none."""
    if programs() is None:
        return f"needs PostgreSQL: {HOW}"
    if os.getuid() == 0 and user() is None:
        return f"needs a user postgres, because PostgreSQL does not run as root: {HOW}"
    return None


def user() -> str | None:
    """Whom the server belongs to; None when that is us."""
    if os.getuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return None


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """host:port of a server."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    # Not pytest's own directories: these are closed to everybody but who runs the tests.
    with tempfile.TemporaryDirectory(prefix="ottla-postgres-") as home:
        yield from _served(Path(home), user())


def _served(home: Path, owner: str | None) -> Iterator[str]:
    if owner is not None:
        shutil.chown(home, owner)
    where, data = programs(), home / "data"
    assert where is not None
    making = [where / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"]
    subprocess.run(making, user=owner, cwd=home, check=True, capture_output=True, timeout=HANG_S)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [where / "postgres", "-D", data, "-p", str(port), "-k", home, "-c", "fsync=off"]
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(command, user=owner, cwd=home, stdout=log, stderr=log)
    try:
        _wait(port, server)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(HANG_S)


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    import psycopg

    for _ in range(round(HANG_S / 0.05)):
        assert server.poll() is None, "PostgreSQL has ended"
        try:
            psycopg.connect(host="127.0.0.1", port=port, user="postgres", dbname="postgres").close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("PostgreSQL does not answer")
