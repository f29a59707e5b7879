"""A Kafka cluster that misbehaves on request: for tests of what a program does in bad weather.

    from ottla.testing import FakeBroker

    with FakeBroker(nodes=2) as fake:
        fake.create_topic("orders", partitions=2)
        fake.fail("Produce", "NOT_ENOUGH_REPLICAS", times=2, topic="orders", partition=0)
        fake.hang_up("Produce", when="in the middle")
        fake.delay("Metadata", ms=200, times=None)
        with Producer(bootstrap_servers=fake.bootstrap_servers) as producer:
            producer.send("orders", b"paid", partition=0).result(10)
        assert [record.value for record in fake.records("orders", 0)] == [b"paid"]
        assert fake.asked("Produce") >= 3

`KafkaBroker` is the real one and what most tests want; this one is small, forgets everything, and does as it is told.

What it does unbent: metadata of several nodes (a loopback port each), Produce with Kafka's rules for sequence numbers,
Fetch with sessions, epochs and isolation, ListOffsets, OffsetForLeaderEpoch, groups of one member in both protocols,
committed offsets, producer ids and transactions. Any Kafka client can talk to it.

Bending. Every call makes a Rule that waits for requests of one API and counts itself down; `times=None` lasts until
`rule.stop()`. `node`, `topic` and `partition` narrow it. Rules of one kind are used one after the other, rules of
different kinds at the same time.
    fail        answer with an error code, of the whole request or of one partition; `although_done` does the work all
                the same, as NOT_ENOUGH_REPLICAS_AFTER_APPEND does
    delay       answer late; what came after it on the connection waits too, as it does in Kafka
    mute        never answer, and nothing else on that connection either
    hang_up     "before" the work, "instead" of the answer, "in the middle" of it, "after" it
    garble      "twice", "garbage", "oversized", "wrong correlation id", "cut short", "huge count"
    throttle    say throttle_time_ms
    change      give the answer to a function that returns another one: wrong topics, wrong offsets, whatever
    answer      let a function make the answer; also for APIs that the fake does not know
The cluster itself changes by move_leader, truncate, trim, forget_producers, stop_node, start_node, rebalance, assign,
slow_down, advertise, offer.

1. Requests of one connection are dealt with one after the other, and answered in that order.
2. Everything that was asked is in `requests`, in order: node, API, version, message (the last `requests_limit`).
3. Any thread may call; a rule holds for the next request that begins after the call.
4. Over a MemoryNetwork, on the caller's loop: `async with FakeBroker(transport=network, clock=clock) as fake`.
5. A mistake in a function of the test, or in the fake, hangs up, is logged, and is raised when the fake stops.

Read rules.py (what bends), cluster.py and log.py (what there is), then the answers and wire.py.
"""

from ottla.testing.fake.broker import FakeBroker
from ottla.testing.fake.log import FakeLog
from ottla.testing.fake.rules import Asked, Rule

__all__ = ["Asked", "FakeBroker", "FakeLog", "Rule"]
