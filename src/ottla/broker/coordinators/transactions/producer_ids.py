"""Producer ids, from blocks that belong to this broker alone.

A broker takes ids from a block of 1000. The cluster's truth (the metadata log, ZooKeeper or a controller) only keeps
where the next block begins, so it is asked once per thousand producers.

1. An id is handed out once, by one broker, ever. A block is used only after the store has recorded it as allocated;
   what is left of it after a crash is lost, not reused. 2**63 ids are enough for that.
2. `request_block` returns a BlockRequest when nine tenths of the last block are used, and no second one before
   `block_stored` or `request_failed` was called. So the next block is there before it is needed.
3. When there is no id, next_id raises COORDINATOR_LOAD_IN_PROGRESS, as Kafka does: the client tries again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.errors import NONE, BrokerError, CoordinatorLoadInProgress, InvalidRequest
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

BLOCK_SIZE: Final = 1_000
LAST_PRODUCER_ID: Final = 2**63 - 1
_REQUEST_WHEN_LEFT: Final = BLOCK_SIZE // 10


class ProducerIdBlock(NamedTuple):
    """The ids from `first` on, `size` of them, belong to one broker."""

    first: int
    size: int = BLOCK_SIZE

    @property
    def end(self) -> int:
        """The first id after it."""
        return self.first + self.size


class BlockRequest(NamedTuple):
    """Have the store allocate a block of this size, then call block_stored; or request_failed."""

    size: int = BLOCK_SIZE


def next_block(next_producer_id: int, size: int = BLOCK_SIZE) -> ProducerIdBlock:
    """The block a store allocates when its next free id is this; afterwards its next free id is the block's end."""
    if next_producer_id > LAST_PRODUCER_ID - size:
        raise ValueError(f"no block of {size} producer ids is left after {next_producer_id}")
    return ProducerIdBlock(next_producer_id, size)


class ProducerIdBlocks:
    """The ids this broker may hand out. One per broker, shared by its coordinators."""

    def __init__(self) -> None:
        self._next = 0
        self._end = 0  # of the block in use; nothing is left when _next is here
        self._spare: ProducerIdBlock | None = None
        self._is_requested = False

    @property
    def left(self) -> int:
        return self._end - self._next + (self._spare.size if self._spare else 0)

    def next_id(self) -> int:
        """An id that nobody had before; raises CoordinatorLoadInProgress when a block has to come first."""
        if self._next == self._end and self._spare is not None:
            self._next, self._end, self._spare = self._spare.first, self._spare.end, None
        if self._next == self._end:
            raise CoordinatorLoadInProgress(
                "every producer id of this broker is handed out; the next block is being allocated"
            )
        self._next += 1
        return self._next - 1

    def request_block(self) -> BlockRequest | None:
        """Call after next_id and at the start; carry out the request it returns."""
        if self._is_requested or self.left > _REQUEST_WHEN_LEFT:
            return None
        self._is_requested = True
        return BlockRequest()

    def block_stored(self, block: ProducerIdBlock) -> None:
        """The store has recorded that this block is ours."""
        newest = self._spare.end if self._spare else self._end
        if block.first < newest or block.size < 1:
            raise ValueError(f"the store allocated {block} after ids up to {newest}; its next producer id went back")
        if not self._is_requested:
            raise ValueError(f"the store allocated {block}, which nobody had requested")
        self._is_requested = False
        if self._next == self._end:
            self._next, self._end = block.first, block.end
        else:
            self._spare = block

    def request_failed(self) -> None:
        """No block was stored; `request_block` will return another request."""
        self._is_requested = False


def names_producer(request: InitProducerIdRequest) -> bool:
    """Whether the request names the producer's id and epoch (KIP-360); one without the other is an invalid request."""
    has_id, has_epoch = request.producer_id != -1, request.producer_epoch != -1
    if has_id != has_epoch:
        raise InvalidRequest("a request has both the producer's id and its epoch, or neither")
    return has_id


def answer_without_transactional_id(
    request: InitProducerIdRequest, next_producer_id: Callable[[], int]
) -> InitProducerIdResponse:
    """For producers that are idempotent only: always a new id. Every broker may answer, no coordinator is asked."""
    try:
        names_producer(request)
        return InitProducerIdResponse(error_code=NONE, producer_id=next_producer_id(), producer_epoch=0)
    except BrokerError as error:
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
