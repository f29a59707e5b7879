"""Transactions over HTTP: who is open, who holds back readers, and ending one.

1. A transaction that its coordinator knows is ended as a new instance of its producer would end it: InitProducerId
   with its transactional id aborts it and fences whoever has it open. That needs WRITE on the id.
2. One that only a partition knows (a hanging one) is ended by writing the marker of an abort into that partition, as
   Kafka's tool does. That needs ALTER on the cluster.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from ottla.broker.console.held_elsewhere import holders_elsewhere
from ottla.broker.console.needs import ALTER_CLUSTER, DESCRIBE_ID, WRITE_ID
from ottla.broker.console.reach import ask_coordinator, ask_leader
from ottla.broker.console.transactions import described, holders, transaction_detail, transaction_list
from ottla.broker.http.call import Call
from ottla.broker.http.parts import KNOWN, HttpError, Reply, Route, may, reply
from ottla.cluster.topic_names import TRANSACTION_STATE
from ottla.errors import ConcurrentTransactions, raise_for_code
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

ABORT_LIMIT_MS: Final = 20_000
RETRY_MS: Final = 20


async def read_transactions(call: Call) -> Reply:
    rows, total = await transaction_list(call)
    held, leads_all = await holders(call), call.broker.link.is_alone
    if not leads_all:
        names = [str(each["id"]) for each in rows if isinstance(each, dict) and each["is_open"]]
        held = [*held, *await holders_elsewhere(call, names)]
    return reply({"transactions": rows, "total": total, "holders": held, "leads_all": leads_all})


async def read_transaction(call: Call) -> Reply:
    return reply(await transaction_detail(call, call.path["id"]))


async def abort(call: Call) -> Reply:
    name = call.path["id"]
    state = await described(call, name)
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=max(1, state.transaction_timeout_ms))
    clock = call.broker.clock
    end_ms = clock.monotonic_ms() + ABORT_LIMIT_MS
    while True:
        answer = await ask_coordinator(call, TRANSACTION_STATE, name, request, InitProducerIdResponse, WRITE_ID)
        if answer.error_code != ConcurrentTransactions.code or clock.monotonic_ms() >= end_ms:
            break
        await clock.sleep(RETRY_MS)  # its markers are being written
    raise_for_code(answer.error_code)
    return reply({"id": name, "was": state.transaction_state})


async def abort_hanging(call: Call) -> Reply:
    topic, index, sent = call.path["topic"], call.index("partition"), call.json()
    wanted = [sent.get(name) for name in ("producer_id", "producer_epoch", "coordinator_epoch")]
    numbers = [each for each in wanted if isinstance(each, int)]
    if len(numbers) != len(wanted):
        raise HttpError(HTTPStatus.BAD_REQUEST, "send producer_id, producer_epoch and coordinator_epoch")
    marker = WritableTxnMarker(
        producer_id=numbers[0],
        producer_epoch=numbers[1],
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
        coordinator_epoch=max(0, numbers[2]),
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    answer = await ask_leader(call, topic, index, request, WriteTxnMarkersResponse, ALTER_CLUSTER)
    codes = [each.error_code for one in answer.markers for found in one.topics for each in found.partitions]
    raise_for_code(codes[0])
    return reply({"topic": topic, "partition": index})


HANGING: Final = {
    "producer_id": "whose transaction it is",
    "producer_epoch": "its epoch",
    "coordinator_epoch": "the last one that the partition knows; -1 for none",
}
ROUTES: Final = (
    Route("GET", "/api/transactions", read_transactions, KNOWN, "Transactions, and who holds back readers."),
    Route("GET", "/api/transactions/{id:path}", read_transaction, may(DESCRIBE_ID, "id"), "A transaction."),
    Route("DELETE", "/api/transactions/{id:path}", abort, may(WRITE_ID, "id"), "Abort it and fence its producer."),
    Route(
        "POST",
        "/api/topics/{topic}/partitions/{partition}/abort",
        abort_hanging,
        may(ALTER_CLUSTER),
        "Abort a hanging transaction in one partition.",
        body=HANGING,
    ),
)
