import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.coordinators.transactions.producer_ids import (
    BLOCK_SIZE,
    LAST_PRODUCER_ID,
    BlockRequest,
    ProducerIdBlock,
    ProducerIdBlocks,
    answer_without_transactional_id,
    next_block,
)
from ottla.errors import CoordinatorLoadInProgress, InvalidRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def stocked(first=0):
    blocks = ProducerIdBlocks()
    assert blocks.request_block() == BlockRequest(BLOCK_SIZE)
    blocks.block_stored(ProducerIdBlock(first))
    return blocks


def test_without_a_block_the_client_is_asked_to_try_again():
    with pytest.raises(CoordinatorLoadInProgress):
        ProducerIdBlocks().next_id()


def test_ids_are_given_in_order_and_each_once():
    blocks = stocked(5_000)
    assert [blocks.next_id() for _ in range(BLOCK_SIZE)] == list(range(5_000, 6_000))
    with pytest.raises(CoordinatorLoadInProgress):
        blocks.next_id()


def test_the_next_block_is_asked_for_once_when_nine_tenths_are_used():
    blocks = stocked()
    for _ in range(899):
        blocks.next_id()
        assert blocks.request_block() is None
    blocks.next_id()
    assert blocks.request_block() == BlockRequest()
    assert blocks.request_block() is None
    blocks.block_stored(ProducerIdBlock(7_000))
    assert [blocks.next_id() for _ in range(102)] == [*range(900, 1_000), 7_000, 7_001]


def test_a_failed_question_is_asked_again():
    blocks = ProducerIdBlocks()
    assert blocks.request_block() is not None
    blocks.request_failed()
    assert blocks.request_block() is not None


def test_a_block_that_goes_back_is_refused():
    blocks = stocked(1_000)
    for _ in range(950):
        blocks.next_id()
    blocks.request_block()
    with pytest.raises(ValueError, match="went back"):
        blocks.block_stored(ProducerIdBlock(1_500))


def test_a_block_nobody_asked_for_is_refused():
    with pytest.raises(ValueError, match="nobody had requested"):
        stocked().block_stored(ProducerIdBlock(1_000))


def test_blocks_end_where_ids_end():
    assert next_block(3_000) == ProducerIdBlock(3_000, BLOCK_SIZE)
    with pytest.raises(ValueError, match="no block"):
        next_block(LAST_PRODUCER_ID - 10)


@given(st.lists(st.sampled_from(["take", "crash", "store", "fail"]), max_size=400))
def test_no_id_is_ever_given_twice_whenever_a_broker_crashes(steps):
    stored, blocks, asked, given_out = 0, ProducerIdBlocks(), None, []
    for step in steps:
        asked = blocks.request_block() or asked
        if step == "crash":
            blocks, asked = ProducerIdBlocks(), None  # all it had in memory is gone, the store is not
        elif step == "store" and asked:
            block = next_block(stored, 7)
            stored = block.end
            blocks.block_stored(block)
            asked = None
        elif step == "fail" and asked:
            blocks.request_failed()
            asked = None
        elif step == "take" and blocks.left:
            given_out.append(blocks.next_id())
    assert len(given_out) == len(set(given_out))


def test_a_producer_without_transactional_id_gets_a_new_id():
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
    assert answer_without_transactional_id(request, lambda: 42) == InitProducerIdResponse(
        error_code=0, producer_id=42, producer_epoch=0
    )


def test_a_producer_without_transactional_id_waits_for_a_block():
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
    answer = answer_without_transactional_id(request, ProducerIdBlocks().next_id)
    assert answer == InitProducerIdResponse(
        error_code=CoordinatorLoadInProgress.code, producer_id=-1, producer_epoch=-1
    )


def test_an_id_without_an_epoch_is_no_valid_request():
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1, producer_id=4)
    assert answer_without_transactional_id(request, lambda: 42).error_code == InvalidRequest.code
