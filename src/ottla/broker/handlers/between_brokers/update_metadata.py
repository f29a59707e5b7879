"""UpdateMetadata (between brokers, ZooKeeper mode): the controller tells who is there and who leads what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.link import member_of
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import WIDE_ENTRIES, Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(UpdateMetadataRequest, entries=WIDE_ENTRIES, needs=(CLUSTER_ACTION,))


def handle(broker: Broker, request: UpdateMetadataRequest, context: RequestContext) -> UpdateMetadataResponse:
    return member_of(broker).orders.update_metadata(request)
