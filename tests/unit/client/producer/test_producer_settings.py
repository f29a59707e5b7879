"""Java's names, defaults and rules between settings."""

import pytest

from ottla.client.producer.settings import ProducerSettings
from ottla.errors import InvalidSetting, UnknownSetting
from ottla.records import Compression

SERVERS = {"bootstrap.servers": "localhost:9092"}


def settings(**keywords):
    return ProducerSettings(SERVERS, **keywords)


def test_defaults_are_those_of_java_but_for_the_batch_size():
    made = settings()
    assert (made.acks_on_wire, made.is_idempotent, made.linger_ms) == (-1, True, 5)
    assert made.batch_size == 262_144, "decision 0049"
    assert settings(batch_size=16384).batch_size == 16384
    assert (made.buffer_memory, made.max_block_ms, made.delivery_limit_ms) == (33554432, 60000, 120000)
    assert (made.max_request_size, made.max_in_flight_requests_per_connection) == (1048576, 5)


@pytest.mark.parametrize("given", [{"acks": "1"}, {"acks": 0}, {"retries": 0}])
def test_what_excludes_idempotence_turns_it_off_when_it_was_not_asked_for(given):
    assert not settings(**given).is_idempotent


@pytest.mark.parametrize("given", [{"acks": "1"}, {"retries": 0}])
def test_what_excludes_idempotence_is_refused_when_it_was_asked_for(given):
    with pytest.raises(InvalidSetting, match="exclude each other"):
        settings(enable_idempotence=True, **given)
    with pytest.raises(InvalidSetting, match=r"transactional\.id"):
        settings(transactional_id="t", **given)


def test_six_in_flight_are_too_many_for_idempotence():
    with pytest.raises(InvalidSetting, match="more than the 5"):
        settings(max_in_flight_requests_per_connection=6)
    assert settings(max_in_flight_requests_per_connection=6, enable_idempotence=False)


def test_transactions_need_idempotence():
    with pytest.raises(InvalidSetting, match=r"needs enable\.idempotence"):
        settings(transactional_id="t", enable_idempotence=False)


def test_a_record_must_live_for_a_request():
    with pytest.raises(InvalidSetting, match=r"less than linger\.ms"):
        settings(delivery_timeout_ms=1000)
    assert settings(request_timeout_ms=200_000, default_api_timeout_ms=200_000).delivery_limit_ms == 200_005


def test_words_of_other_libraries():
    made = ProducerSettings(
        SERVERS | {"queue.buffering.max.ms": 7, "compression.codec": "lz4", "message.timeout.ms": 99_000}
    )
    assert (made.linger_ms, made.compression, made.delivery_limit_ms) == (7, Compression.LZ4, 99_000)
    assert ProducerSettings(SERVERS | {"partitioner": "murmur2_random"}).partitioner is None
    assert ProducerSettings(SERVERS, max_batch_size=5).batch_size == 5


def test_levels_belong_to_their_codec():
    assert settings(compression_type="zstd", compression_zstd_level=7).level == 7
    assert settings(compression_type="zstd", compression_gzip_level=7).level is None
    assert settings(compression_type="gzip", compression_level=4).level == 4
    with pytest.raises(InvalidSetting):
        settings(compression_type="gzip", compression_level=40)


def test_unknown_names_and_bad_values_are_refused_with_words():
    with pytest.raises(UnknownSetting, match="linger_ms"):
        settings(lingr_ms=5)
    with pytest.raises(InvalidSetting, match="all, -1, 0 or 1"):
        settings(acks="2")
    with pytest.raises(InvalidSetting, match="value_serializer"):
        settings(value_serializer="jsn")
