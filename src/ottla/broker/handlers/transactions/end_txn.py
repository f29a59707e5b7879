"""EndTxn: commit or abort a transaction. The coordinator of its id decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.transactions.shard import TransactionShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


WRITE_ID = Need(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID)
SERVES = Served(EndTxnRequest, needs=(WRITE_ID,))


async def handle(broker: Broker, request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
    WRITE_ID.check(broker, context, request.transactional_id)
    answer: EndTxnResponse = await broker.transactions.ask(
        request.transactional_id, TransactionShard.end_txn, request, context
    )
    return answer
