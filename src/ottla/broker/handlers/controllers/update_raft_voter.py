"""UpdateRaftVoter: a voter is reached elsewhere, or knows other features (cluster/raft/voter_changes.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.protocol.messages.update_raft_voter import CurrentLeader, UpdateRaftVoterRequest, UpdateRaftVoterResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SERVES = Served(UpdateRaftVoterRequest, needs=(CLUSTER_ACTION,))


def handle(broker: Broker, request: UpdateRaftVoterRequest, context: RequestContext) -> UpdateRaftVoterResponse:
    CLUSTER_ACTION.check(broker, context)
    loop = controller_link(broker).raft_loop
    error_code = loop.update_voter(request)
    leader = loop.raft.leader_view
    answer = UpdateRaftVoterResponse(error_code=error_code)
    if leader.address is not None:
        answer.current_leader = CurrentLeader(
            leader_id=leader.leader_id, leader_epoch=leader.epoch, host=leader.address.host, port=leader.address.port
        )
    return answer
