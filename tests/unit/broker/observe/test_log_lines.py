"""Log lines: their form, what they hide, and how often they repeat."""

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.observe import log_lines as logs
from ottla.settings import Password


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Time:
    now_ms = 0.0

    def __call__(self):
        return self.now_ms


@pytest.fixture
def configured():
    """Configures the root logger and puts back what pytest had there."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level

    def configure(form="json", stream=None, level="INFO", clock=None):
        stream = stream or io.StringIO()
        logs.configure(level=level, form=form, stream=stream, monotonic_ms=clock or Time())
        return stream

    yield configure
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


log = logging.getLogger("ottla.broker.test")


def test_json_lines_have_time_level_logger_message_and_fields(configured):
    stream = configured()
    log.info("topic %s made", "orders", extra={"topic": "orders", "partitions": 3})
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "INFO",
        "logger": "ottla.broker.test",
        "message": "topic orders made",
        "topic": "orders",
        "partitions": 3,
    }


def test_a_terminal_gets_text_with_colours_for_what_matters_and_a_file_gets_json(configured):
    terminal = configured("auto", Terminal())
    log.info("hello")
    log.warning("careful")
    first, second = terminal.getvalue().splitlines()
    assert first.endswith("INFO    broker.test  hello")
    assert "\033[33mWARNING\033[0m" in second
    file = configured("auto")
    log.info("hello")
    assert json.loads(file.getvalue())["message"] == "hello"
    text = configured("text")
    log.warning("hello")
    assert "\033" not in text.getvalue()


def test_the_level_is_kept(configured):
    stream = configured(level="WARNING")
    log.info("no")
    log.warning("yes")
    assert len(stream.getvalue().splitlines()) == 1


def test_what_a_client_sends_cannot_start_a_line(configured):
    stream = configured("text")
    log.info("client %s", "evil\n12:00:00 ERROR all is lost\033[2J")
    assert len(stream.getvalue().splitlines()) == 1
    assert "\033" not in stream.getvalue()


def test_long_lines_are_cut(configured):
    stream = configured("text")
    log.info("x" * 100_000)
    assert len(stream.getvalue()) < logs.LINE_LIMIT + 100


def test_an_exception_follows_its_line(configured):
    for form in ("text", "json"):
        stream = configured(form)
        try:
            raise ValueError("password=hunter2")
        except ValueError:
            log.exception("failed")
        assert "ValueError" in stream.getvalue()
        assert "hunter2" not in stream.getvalue()


@pytest.mark.parametrize(
    "message",
    [
        "ssl.keystore.password=hunter2",
        "sasl.jaas.config: org.x.PlainLoginModule required username='a' password=\"hunter2\";",
        "{'ssl.key.password': 'hunter2'}",
        "delegation.token.secret.key = hunter2, more",
    ],
)
def test_secrets_are_hidden_even_in_a_sentence(configured, message):
    stream = configured("text")
    log.warning("settings %s", message)
    log.warning("settings", extra={"password": "hunter2"})
    log.warning("settings %s", Password("hunter2"))
    assert "hunter2" not in stream.getvalue()
    json_stream = configured("json")
    log.warning("settings", extra={"client_secret": "hunter2"})
    assert "hunter2" not in json_stream.getvalue()


def test_a_repeated_message_is_held_back_and_counted(configured):
    clock = Time()
    stream = configured(clock=clock)
    for number in range(100):
        log.warning("client %d is strange", number)
    log.warning("another message")
    messages = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert len(messages) == logs.REPEATS_LIMIT + 1
    assert messages[-2].endswith("(more like this are not written for a while)")
    clock.now_ms = 61_000.0
    log.warning("client %d is strange", 100)
    last = json.loads(stream.getvalue().splitlines()[-1])["message"]
    assert last == "client 100 is strange (and 80 more like this were not written)"


def test_the_table_of_repeats_is_bounded():
    repeats = logs.Repeats(Time())
    for number in range(logs.REPEATS_TABLE_LIMIT * 2):
        repeats.filter(logging.makeLogRecord({"msg": f"message {number}"}))
    assert len(repeats._seen) == logs.REPEATS_TABLE_LIMIT


@given(st.text())
def test_any_message_is_one_line_of_json(message):
    record = logging.makeLogRecord({"msg": "%s", "args": (message,), "name": "n", "levelname": "INFO"})
    line = logs.JsonLines().format(record)
    assert len(line.splitlines()) == 1
    assert isinstance(json.loads(line)["message"], str)
