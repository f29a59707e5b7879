"""A broker that is one of several on this machine: `python -m ottla.cli.brokers.member FILE NAME [USERS]`.

It is `ottla broker start --config FILE`, but for: the environment was read by the supervisor and is in the file, the
log says which broker writes, one line of JSON says where it serves, and it stops when the supervisor is gone.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.brokers.child import say_serving, stop_with_supervisor
from ottla.cli.commands.broker import http_urls, run_start
from ottla.cli.main import make_parser
from ottla.cli.output import finish

if TYPE_CHECKING:
    from ottla.broker.settings import BrokerSettings


def main(arguments: Sequence[str]) -> int:
    file, name, *users = arguments
    words = ["broker", "start", "--config", file]
    options = make_parser(words).parse_args(words)
    found = [each for path in users for each in json.loads(Path(path).read_text("utf-8"))]
    return finish(lambda: run_start(options, {}, partial(_serve, users=found), process=name))


async def _serve(
    settings: BrokerSettings, *, ready: Callable[[Any], None], stop: asyncio.Event, users: list[tuple[str, str, bool]]
) -> None:
    from ottla.broker.security.first_users import FirstUser
    from ottla.broker.server import serve

    stop_with_supervisor(stop)

    def serving(info: Any) -> None:
        say_serving(
            broker_id=info.broker_id,
            cluster_id=info.cluster_id,
            bootstrap_servers=info.bootstrap_servers,
            ports={each.listener: each.port for each in info.endpoints},
            http=http_urls(info),
        )
        gc.freeze()

    await serve(settings, ready=serving, stop=stop, first_users=[FirstUser(*each) for each in users])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
