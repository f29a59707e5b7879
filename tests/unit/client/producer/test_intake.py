"""What is done to a record before it is written: serializers, partitioners, sizes, interceptors, spans."""

import sys
import threading
import types

import pytest

from ottla.client.producer.batches.append_choice import TopicState
from ottla.client.producer.intake import Intake, headers_bytes, pair_of, record_of
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.values import ProducerRecord, RecordTooLargeToSend
from ottla.errors import CorruptMessage, InvalidSetting
from ottla.records import BatchBuilder


def intake(**settings):
    return Intake(ProducerSettings(bootstrap_servers="h:1", **settings))


@pytest.fixture
def state():
    made = TopicState("t", sticky_limit_bytes=100, record_limit_bytes=10**6, ignores_keys=False, lock=threading.Lock())
    made.set_partition_count(3)
    return made


def test_without_anything_of_the_users_records_are_plain():
    assert intake().is_plain
    assert not intake(value_serializer="json").is_plain
    assert not intake(partitioner="consistent").is_plain
    assert not intake(interceptor_classes=[object()]).is_plain


def test_keys_and_values_become_bytes(state):
    prepared = intake(key_serializer="long", value_serializer="json").prepare(
        ProducerRecord("t", {"a": 1}, 5, headers={"h": b"v"}), state, (0, 1)
    )
    assert (prepared.key, prepared.value, prepared.partition) == (bytes(7) + b"\5", b'{"a":1}', None)
    assert prepared.needed_bytes >= 97 + 8 + 7


def test_a_partitioner_is_asked_only_when_the_record_does_not_say(state):
    asked = []

    def choose(key, everything, available):
        asked.append((key, list(everything), available))
        return 2

    way = intake(partitioner_class=choose)
    assert way.prepare(ProducerRecord("t", b"v", b"k", partition=1), state, (0,)).partition == 1
    assert way.prepare(ProducerRecord("t", b"v", b"k"), state, (0,)).partition == 2
    assert asked == [(b"k", [0, 1, 2], (0,))]


def test_a_partitioner_that_chooses_what_is_not_there_is_told_so(state):
    with pytest.raises(ValueError, match="chose 7; t has 3 partitions"):
        intake(partitioner_class=lambda *_: 7).prepare(ProducerRecord("t", b"v"), state, ())
    with pytest.raises(ValueError, match="0 or more"):
        intake().prepare(ProducerRecord("t", b"v", partition=-1), state, ())


def test_both_limits_of_size_are_named(state):
    with pytest.raises(RecordTooLargeToSend, match=r"max\.request\.size is 200"):
        intake(max_request_size=200).prepare(ProducerRecord("t", b"x" * 200), state, ())
    with pytest.raises(RecordTooLargeToSend, match=r"buffer\.memory is 150"):
        intake(buffer_memory=150).prepare(ProducerRecord("t", b"x" * 100), state, ())


def test_a_list_is_checked_whole_and_texts_become_bytes():
    many = intake().prepare_many("t", ("a", b"b", None), None, None, 5)
    assert many.items == [b"a", b"b", None]
    pairs = intake(value_serializer="json").prepare_many("t", [("k", [1]), (None, None)], None, None, 5)
    assert pairs.items == [(b"k", b"[1]"), (None, None)]
    assert (pairs.key_of(0), pairs.key_of(1)) == (b"k", None)
    with pytest.raises(RecordTooLargeToSend):
        intake(max_request_size=200).prepare_many("t", [b"a", b"x" * 300], None, None, 5)
    assert intake(interceptor_classes=[object()]).prepare_many("t", [b"a"], None, None, 5) is None


def test_the_estimate_of_headers_is_never_too_small():
    headers = [("name", b"value"), ("ü" * 40, None), ("", b"x" * 300)]
    with_headers, without = BatchBuilder(size_limit_bytes=9999), BatchBuilder(size_limit_bytes=9999)
    with_headers.append(1, None, b"v", headers)
    without.append(1, None, b"v")
    assert headers_bytes(headers) >= with_headers.uncompressed_bytes - without.uncompressed_bytes


def test_arguments_of_send_make_a_record():
    record = ProducerRecord("t", 1)
    assert record_of(record, None, None, None, None, None) is record
    assert record_of("t", 1, None, None, None, None) == record
    assert pair_of((1, 2)) == (1, 2)
    assert pair_of(2) == (None, 2)
    with pytest.raises(TypeError, match="a topic is a str"):
        record_of(5, None, None, None, None, None)


def test_interceptors_that_fail_are_logged_and_passed_by(caplog):
    heard = []

    class Broken:
        def on_send(self, record):
            raise RuntimeError("mine")

        def on_acknowledgement(self, metadata, error):
            raise RuntimeError("mine too")

    class Listens:
        def on_send(self, record):
            return ProducerRecord(record.topic, b"changed")

        def on_acknowledgement(self, metadata, error):
            heard.append(error)

        def close(self):
            heard.append("closed")

    way = intake(interceptor_classes=[Broken, Listens()])
    record, span = way.begin(ProducerRecord("t", b"v"))
    assert (record.value, span) == (b"changed", None)
    way.refused(error := CorruptMessage(), None)
    way.interceptors.close()
    assert heard == [error, "closed"]
    assert "mine too" in caplog.text


def test_tracing_needs_opentelemetry(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(InvalidSetting, match="opentelemetry-api"):
        intake(ottla_tracing_enable=True)


def test_a_span_goes_with_the_record_and_ends_with_its_delivery(monkeypatch):
    story = []

    class Span:
        def set_attribute(self, name, value):
            story.append((name, value))

        def record_exception(self, error):
            story.append(("exception", error))

        def set_status(self, status, text):
            story.append(("status", status))

        def end(self):
            story.append("end")

    trace = types.SimpleNamespace(
        get_tracer=lambda name: types.SimpleNamespace(
            start_span=lambda name, kind, attributes: story.append((name, kind, attributes)) or Span()
        ),
        set_span_in_context=lambda span: "context",
        SpanKind=types.SimpleNamespace(PRODUCER="producer"),
        StatusCode=types.SimpleNamespace(ERROR="error"),
    )
    propagate = types.SimpleNamespace(inject=lambda carrier, context: carrier.update(traceparent="00-1"))
    for name, module in (("opentelemetry", types.ModuleType("o")), ("opentelemetry.trace", trace)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "opentelemetry.propagate", propagate)
    way = intake(ottla_tracing_enable=True)
    record, span = way.begin(ProducerRecord("t", b"v", "key", headers=[("mine", b"1")]))
    assert record.headers == [("mine", b"1"), ("traceparent", b"00-1")]
    assert story[0][:2] == ("send t", "producer")
    span.ended(None, CorruptMessage())
    assert story[-1] == "end"
    assert ("status", "error") in story


@pytest.mark.parametrize("settings", [{}, {"value_serializer": str.encode}])
@pytest.mark.parametrize("value", ["abc", b"abc", {b"key": b"value"}])
def test_one_value_is_not_taken_for_a_list_of_its_letters(settings, value):
    with pytest.raises(TypeError, match="takes a list of values"):
        intake(**settings).prepare_many("t", value, None, None, 0)
