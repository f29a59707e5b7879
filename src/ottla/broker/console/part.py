"""The console as a part of the HTTP door: its routes put together, and the samples that its charts are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.console import (
    access_routes,
    client_routes,
    group_routes,
    metadata_log,
    record_routes,
    schema_routes,
    settings_routes,
    transaction_routes,
)
from ottla.broker.console.inside_routes import inside_routes
from ottla.broker.console.overview_routes import overview_routes
from ottla.broker.console.pages import page_routes
from ottla.broker.console.rates import History
from ottla.broker.console.survey import Survey
from ottla.broker.http.parts import Part

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def make_part(broker: Broker) -> Part:
    history, survey = History(broker), Survey(broker)

    async def start() -> None:
        broker.background.start(history.run())

    async def stop() -> None:
        history.stop()

    routes = (
        *page_routes(),
        *overview_routes(history, survey),
        *record_routes.ROUTES,
        *schema_routes.ROUTES,
        *settings_routes.ROUTES,
        *group_routes.ROUTES,
        *transaction_routes.ROUTES,
        *access_routes.ROUTES,
        *client_routes.ROUTES,
        *metadata_log.ROUTES,
        *inside_routes(survey),
    )
    return Part("console", routes, start, stop)
