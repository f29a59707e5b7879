"""Which of two looks at a node is the newer one."""

from __future__ import annotations

from ottla.cluster.store.zookeeper.read_order import ReadOrder

PATH = "/kafka-acl/Topic/orders"


def test_a_look_that_began_before_something_newer_is_known_is_old() -> None:
    order = ReadOrder()
    assert not order.is_old(PATH, 0)
    order.note(PATH, 7)
    assert order.is_old(PATH, 6)
    assert not order.is_old(PATH, 7)
    assert not order.is_old("/kafka-acl/Topic/others", 1)


def test_what_is_noted_later_makes_nothing_older() -> None:
    order = ReadOrder()
    order.note(PATH, 7)
    order.note(PATH, 5)
    assert order.is_old(PATH, 6)


def test_those_that_changed_longest_ago_are_forgotten() -> None:
    order = ReadOrder(limit=2)
    for path, zxid in (("/a", 1), ("/b", 2), ("/a", 3), ("/c", 4)):
        order.note(path, zxid)
    assert len(order) == 2
    assert [order.is_old(path, 0) for path in ("/a", "/b", "/c")] == [True, False, True]
