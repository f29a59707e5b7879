"""Ctrl-C and fork, in processes of their own: every wait can be interrupted, and a forked client says so at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

import pytest

from ottla.testing import FakeBroker

LIMIT_S = 20
READY = "waiting"

PRODUCER = 'from ottla import Producer\nclient = Producer(bootstrap_servers="{address}", linger_ms=0)\n'
CONSUMER = """from ottla import Consumer, TopicPartition
client = Consumer(bootstrap_servers="{address}", {more})
"""


@pytest.fixture
def fake():
    with FakeBroker() as fake:
        fake.create_topic("t", 2)
        yield fake


def start(fake: FakeBroker, program: str, **more: str) -> subprocess.Popen[str]:
    text = textwrap.dedent(program).replace("{address}", fake.bootstrap_servers)
    for name, value in more.items():
        text = text.replace(f"{{{name}}}", value)
    return subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        return process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it did not end:\n{out}\n{err}") from None


def interrupted(process: subprocess.Popen[str]) -> tuple[str, float]:
    """What it printed after Ctrl-C, and how long that took."""
    assert process.stdout is not None
    assert process.stdout.readline().strip() == READY
    time.sleep(0.3)  # the process says so just before it begins to wait
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = end(process)
    assert "interrupted" in out, out + err
    return out, time.monotonic() - began


AROUND = """
print("waiting", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
client.close(1)
"""


@pytest.mark.parametrize(
    "call",
    [
        'client.send("t", b"x", partition=0).result(60)',
        'client.send("t", b"x", partition=0); client.flush()',
        'client.send("nowhere", b"x")',
        'client.send_many("t", [b"x"] * 10, partition=0).result()',
    ],
)
def test_ctrl_c_ends_every_wait_of_a_producer(fake, call):
    fake.mute("Produce", times=None)
    program = PRODUCER + AROUND.replace("client.close(1)", "try:\n    client.close(1)\nexcept Exception:\n    pass")
    _, took_s = interrupted(start(fake, program, call=call))
    assert took_s < 10


@pytest.mark.parametrize(
    ("call", "muted"),
    [
        ("client.poll(60)", ()),
        ("next(iter(client))", ()),
        ("client.position(TopicPartition('t', 0), timeout=60)", ("ListOffsets",)),
        ("client.commit({TopicPartition('t', 0): 1}, timeout=60)", ("OffsetCommit",)),
    ],
)
def test_ctrl_c_ends_every_wait_of_a_consumer(fake, call, muted):
    for api in muted:
        fake.mute(api, times=None)
    program = CONSUMER + 'client.assign([TopicPartition("t", 0)])\n' + AROUND
    more = 'group_id="g", auto_offset_reset="earliest", enable_auto_commit=False'
    _, took_s = interrupted(start(fake, program, more=more, call=call))
    assert took_s < 10


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
    out, err = end(start(fake, program, call=call))
    assert "ForkedClient" in out, out + err
    assert "parent is well" in out, out + err
    assert [record.value for record in fake.records("t", 0)] == [b"before"]


@pytest.mark.parametrize("call", ["client.poll(5)", "client.commit()", "client.topics()"])
def test_a_forked_consumer_says_so_at_once(fake, call):
    fake.append("t", [b"a"])
    program = CONSUMER + 'client.assign([TopicPartition("t", 0)])\nassert client.poll(10)\n' + CHILD
    out, err = end(start(fake, program, more='group_id="g", auto_offset_reset="earliest"', call=call))
    assert "ForkedClient" in out, out + err
    assert "parent is well" in out, out + err


def test_a_child_can_make_a_client_of_its_own(fake):
    made = 'import ottla; mine = ottla.Producer(bootstrap_servers="{address}")'
    call = f'{made}; mine.send("t", b"child", partition=1).result(10); mine.close()'
    out, err = end(start(fake, PRODUCER + CHILD.replace("{call}", call)))
    assert "nothing was raised" in out, out + err
    assert [record.value for record in fake.records("t", 1)] == [b"child"]


def test_a_program_that_forgets_to_close_ends_and_says_what_was_not_sent(fake):
    fake.mute("Produce", times=None)
    process = start(fake, PRODUCER + 'import logging\nlogging.basicConfig()\nclient.send("t", b"x", partition=0)\n')
    _, err = end(process)
    assert "not closed" in err
