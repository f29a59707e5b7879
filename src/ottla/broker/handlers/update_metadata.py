"""UpdateMetadata (between brokers, ZooKeeper mode): the controller tells who is there and who leads what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.effects import RequestContext
from ottla.errors import UnsupportedVersion
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: UpdateMetadataRequest, context: RequestContext) -> UpdateMetadataResponse:
    if broker.member is None:
        raise UnsupportedVersion("this broker is a cluster of its own")
    return broker.member.update_metadata(request)
