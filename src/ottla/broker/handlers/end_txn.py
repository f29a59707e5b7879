"""EndTxn: commit or abort a transaction. The coordinator of its id decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.transactions.shard import TransactionShard
from ottla.broker.requests.answers import Later
from ottla.protocol.messages.end_txn import EndTxnRequest

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: EndTxnRequest, context: RequestContext) -> Later[Any]:
    return broker.transactions.ask(request.transactional_id, TransactionShard.end_txn, request, context)
