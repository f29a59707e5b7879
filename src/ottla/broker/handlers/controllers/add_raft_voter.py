"""AddRaftVoter: a node is to vote, as an administrator or the node itself asks (cluster/raft/voter_changes.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

ALTER_CLUSTER = Need(AclOperation.ALTER, AclResource.CLUSTER)
SERVES = Served(AddRaftVoterRequest, needs=(ALTER_CLUSTER,))


async def handle(broker: Broker, request: AddRaftVoterRequest, context: RequestContext) -> AddRaftVoterResponse:
    ALTER_CLUSTER.check(broker, context)
    change = await controller_link(broker).raft_loop.add_voter(request)
    return AddRaftVoterResponse(error_code=change.error_code or 0, error_message=change.message)
