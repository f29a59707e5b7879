"""Whether a broker on this machine serves: one request to its health endpoint, for supervisors and containers.

1. Exit code 0 when it serves (or, with --live, when its process answers at all), 1 with the reason when not.
2. It asks where the broker was told to answer: --admin, else OTTLA_ADMIN_LISTENER as a container has it, else the file
   of --config, else where brokers answer who were told nothing.
3. Quick: nothing of the broker or of the client is loaded.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Final

from ottla.cli.output import OK, Failure

ADMIN_ADDRESS: Final = "127.0.0.1:9644"
ADMIN_SETTING: Final = "ottla.admin.listener"
BODY_LIMIT_BYTES: Final = 4_096
ANY_ADDRESS: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


def run_health(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> int:
    address = asked_address(options, environment)
    status, body = _asked(address, "/health/live" if options.live else "/health/ready", options.timeout)
    if status != 200:
        raise Failure(f"the broker at {address} does not serve: {body or status}")
    print(body or ("ready" if not options.live else "live"))
    return OK


def asked_address(options: argparse.Namespace, environment: Mapping[str, str]) -> str:
    """Where the broker answers, as HOST:PORT."""
    found: str | None = options.admin
    if found is None:
        found = environment.get("OTTLA_ADMIN_LISTENER")
    if found is None and options.config is not None:
        from ottla.properties import read_properties

        try:
            found = read_properties(options.config).get(ADMIN_SETTING)
        except OSError as error:
            raise Failure(f"cannot read {options.config}: {error.strerror}. Check the path after --config.") from None
    if found is None:
        return ADMIN_ADDRESS
    if not found.strip():
        raise Failure(f"{ADMIN_SETTING} is empty, so this broker answers no questions about its health")
    return found.strip()


def _asked(address: str, path: str, timeout_s: float) -> tuple[int, str]:
    from http.client import HTTPConnection, HTTPException

    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise Failure(f"{ADMIN_SETTING} (--admin) is {address!r}: write HOST:PORT")
    host = host.strip("[]")
    connection = HTTPConnection(ANY_ADDRESS.get(host, host), int(port), timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(BODY_LIMIT_BYTES).decode("utf-8", errors="replace").strip()
    except (OSError, HTTPException) as error:
        raise Failure(f"nothing answers at {address}: {getattr(error, 'strerror', None) or error}") from None
    finally:
        connection.close()
