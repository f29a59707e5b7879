"""The files of a secured data directory, and that it does not open without a lock by mistake.

Apart from secure_start.py, because every start asks this, and few are secured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.cli.output import Failure

if TYPE_CHECKING:
    from ottla.broker.settings import BrokerSettings

AUTHORITY: Final = "ca.pem"
AUTHORITY_KEY: Final = "ca-key.pem"
CLIENT: Final = "client.properties"
SERVER: Final = "server.pem"


def refuse_to_unlock(settings: BrokerSettings) -> None:
    """A directory that was secured is not opened by a forgotten word."""
    file = settings.data_directories[0] / CLIENT
    is_open = any(each.protocol == "PLAINTEXT" for each in settings.endpoints)
    if is_open and not settings.ottla_allow_insecure_listeners and file.with_name(SERVER).exists() and file.exists():
        raise Failure(
            f"the data in {file.parent} was secured, and would be open to everybody on this machine now. "
            "Start with --secure as before, or with --insecure if you mean it."
        )
