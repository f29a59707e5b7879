"""Ctrl-C and fork, in processes of their own: every wait can be interrupted, and a forked client says so at once."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator

import pytest
from tests.patience import HANG_S

from ottla import Admin, Producer
from ottla.testing import FakeBroker, KafkaBroker

READY = "waiting"
# A shell that starts the tests in the background makes them, and all their children, deaf to Ctrl-C.
CTRL_C = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"

PRODUCER = 'from ottla import Producer\nclient = Producer(bootstrap_servers="{address}", linger_ms=0)\n'
CONSUMER = """from ottla import Consumer, TopicPartition
client = Consumer(bootstrap_servers="{address}", {more})
"""


@pytest.fixture
def fake():
    with FakeBroker() as fake:
        fake.create_topic("t", 2)
        yield fake


@contextlib.contextmanager
def start(fake: FakeBroker | KafkaBroker, program: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """The program as a process that hears Ctrl-C; whatever happens in the test, it is gone and its pipes are closed."""
    text = CTRL_C + textwrap.dedent(program).replace("{address}", fake.bootstrap_servers)
    for name, value in more.items():
        text = text.replace(f"{{{name}}}", value)
    command = [sys.executable, "-c", text]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, encoding="utf-8", **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        return process.communicate(timeout=HANG_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it did not end:\n{out}\n{err}") from None


def interrupt(process: subprocess.Popen[str]) -> str:
    """Ctrl-C while it waits for longer than anybody waits for its end; what it printed as errors."""
    assert process.stdout is not None
    assert process.stdout.readline().strip() == READY
    # It says so just before it begins to wait. The test passes wherever Ctrl-C comes; this only makes it likely that
    # it comes in the wait that the test is about.
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = end(process)
    assert "interrupted" in out, out + err
    return err


AROUND = """
try:
    print("waiting", flush=True)
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
client.close(1)
"""


@pytest.mark.parametrize(
    "call",
    [
        'client.send("t", b"x", partition=0).result(10_000)',
        'client.send("t", b"x", partition=0); client.flush()',
        'client.send("nowhere", b"x")',
        'client.send_many("t", [b"x"] * 10, partition=0).result()',
    ],
)
def test_ctrl_c_ends_every_wait_of_a_producer(fake, call):
    fake.mute("Produce", times=None)
    program = PRODUCER + AROUND.replace("client.close(1)", "try:\n    client.close(1)\nexcept Exception:\n    pass")
    with start(fake, program, call=call) as process:
        interrupt(process)


@pytest.mark.parametrize(
    ("call", "muted"),
    [
        ("client.poll(10_000)", ()),
        ("next(iter(client))", ()),
        ("client.position(TopicPartition('t', 0), timeout=10_000)", ("ListOffsets",)),
        ("client.commit({TopicPartition('t', 0): 1}, timeout=10_000)", ("OffsetCommit",)),
    ],
)
def test_ctrl_c_ends_every_wait_of_a_consumer(fake, call, muted):
    for api in muted:
        fake.mute(api, times=None)
    program = CONSUMER + 'client.assign([TopicPartition("t", 0)])\n' + AROUND
    more = 'group_id="g", auto_offset_reset="earliest", enable_auto_commit=False'
    with start(fake, program, more=more, call=call) as process:
        interrupt(process)


CHILD = """
import os, sys
child = os.fork()
if child == 0:
    try:
        {call}
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    else:
        print("nothing was raised", flush=True)
    os._exit(0)
os.waitpid(child, 0)
client.close(5)
print("parent is well", flush=True)
"""


@pytest.mark.parametrize(
    "call",
    [
        'client.send("t", b"x")',
        'client.produce("t", b"x", partition=0)',
        "client.flush()",
        'client.send_many("t", [b"x"])',
    ],
)
def test_a_forked_producer_says_so_at_once(fake, call):
    program = PRODUCER + 'client.send("t", b"before", partition=0).result(10)\n' + CHILD
    with start(fake, program, call=call) as process:
        out, err = end(process)
    assert "ForkedClient" in out, out + err
    assert "parent is well" in out, out + err
    assert [record.value for record in fake.records("t", 0)] == [b"before"]


@pytest.mark.parametrize("call", ["client.poll(5)", "client.commit()", "client.topics()", "client.seek_to_end()"])
def test_a_forked_consumer_says_so_at_once(fake, call):
    fake.append("t", [b"a"])
    program = CONSUMER + 'client.assign([TopicPartition("t", 0)])\nassert client.poll(10)\n' + CHILD
    with start(fake, program, more='group_id="g", auto_offset_reset="earliest"', call=call) as process:
        out, err = end(process)
    assert "ForkedClient" in out, out + err
    assert "parent is well" in out, out + err


def test_a_child_can_make_a_client_of_its_own(fake):
    made = 'import ottla; mine = ottla.Producer(bootstrap_servers="{address}")'
    call = f'{made}; mine.send("t", b"child", partition=1).result(10); mine.close()'
    with start(fake, PRODUCER + CHILD.replace("{call}", call)) as process:
        out, err = end(process)
    assert "nothing was raised" in out, out + err
    assert [record.value for record in fake.records("t", 1)] == [b"child"]


def test_a_program_that_forgets_to_close_ends_and_says_what_was_not_sent(fake):
    fake.mute("Produce", times=None)
    program = PRODUCER + 'import logging\nlogging.basicConfig()\nclient.send("t", b"x", partition=0)\n'
    with start(fake, program) as process:
        _, err = end(process)
    assert "not closed" in err


LOOP = """
from ottla import Consumer
with Consumer("clicks", bootstrap_servers="{address}", group_id="{group}", auto_offset_reset="earliest") as consumer:
    try:
        for record in consumer:
            print("waiting", flush=True)
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_ctrl_c_ends_a_loop_over_a_consumer_which_leaves_its_group(kafka_broker_fresh, unique_group):
    """As a program is written: nothing but what it says itself, and nobody waits for a member that is gone."""
    servers = kafka_broker_fresh.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("clicks", b"one")
    with start(kafka_broker_fresh, LOOP, group=unique_group) as process:
        assert interrupt(process) == ""
        assert process.returncode == 0
    with Admin(bootstrap_servers=servers) as admin:
        assert admin.describe_consumer_groups([unique_group])[unique_group].members == ()
