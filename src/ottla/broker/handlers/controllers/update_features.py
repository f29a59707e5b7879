"""UpdateFeatures, on a controller: as a broker of its own decides it, and the level of the quorum, too.

Whether all voters can work at another kraft.version is known to who leads the metadata log (raft/voter_changes.py). It
is looked at here, for who only wants to know, and by Raft itself again when the level is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.handlers.cluster.update_features import ALTER_CLUSTER, SERVES, decide
from ottla.broker.requests.context import RequestContext
from ottla.errors import NotController
from ottla.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["SERVES", "handle"]


async def handle(broker: Broker, request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    ALTER_CLUSTER.check(broker, context)
    try:
        voters = controller_link(broker).raft_loop.known_voters()
    except NotController as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=str(error))
    return await decide(broker, request, context, voters.check_upgrade)
