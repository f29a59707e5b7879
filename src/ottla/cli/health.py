"""Whether a broker on this machine serves: one request to its health endpoint, for supervisors and containers.

1. Exit code 0 when it serves (or, with --live, when its process answers at all), 1 with the reason when not.
2. Quick: nothing of the broker or of the client is loaded.
"""

from __future__ import annotations

import argparse
from typing import Final

from ottla.cli.output import OK, Failure

BODY_LIMIT_BYTES: Final = 4_096


def run_health(options: argparse.Namespace) -> int:
    status, body = _asked(options.admin, "/health/live" if options.live else "/health/ready", options.timeout)
    if status != 200:
        raise Failure(f"the broker at {options.admin} does not serve: {body or status}")
    print("ready" if not options.live else "live")
    return OK


def _asked(address: str, path: str, timeout_s: float) -> tuple[int, str]:
    from http.client import HTTPConnection, HTTPException

    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise Failure(f"--admin {address}: write HOST:PORT")
    connection = HTTPConnection(host.strip("[]"), int(port), timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(BODY_LIMIT_BYTES).decode("utf-8", errors="replace").strip()
    except (OSError, HTTPException) as error:
        raise Failure(f"nothing answers at {address}: {getattr(error, 'strerror', None) or error}") from None
    finally:
        connection.close()
