"""All routes that a broker serves over HTTP, as they were handed to its server: nobody has to list them here."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from tests.hostile_work.attacked_broker import SETTINGS, USERS
from tests.unit.broker.http.http_client import HttpClient

from ottla.broker.http import serving
from ottla.broker.http.parts import Address, Route
from ottla.testing.broker import KafkaBroker


class _At(HttpClient):
    """A client of one address."""

    def __init__(self, address: Address) -> None:
        self.host, self.port = address
        self.cookie = self.token = ""


@cache
def served_routes() -> tuple[tuple[str, Route], ...]:
    """Parts (console, registry) and their routes, of a broker that is started and ended for it."""
    mounted_by_cookie: dict[str, Any] = {}
    application = serving.application

    def noted(broker: Any, mounted: Any, cookie: str, admission: Any) -> Any:
        mounted_by_cookie[cookie] = mounted
        return application(broker, mounted, cookie, admission)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "application", noted)
        with KafkaBroker(SETTINGS, users=USERS) as broker:
            addresses = {part.name.rpartition(" ")[2]: part.address for part in broker.info.http_parts}
            for address in addresses.values():
                _At(address).get("/")  # loads what is there
    return tuple(
        (name, route)
        for name, address in addresses.items()
        for mounted in mounted_by_cookie[f"ottla-{address[1]}"]
        for route in mounted.part.routes
    )
