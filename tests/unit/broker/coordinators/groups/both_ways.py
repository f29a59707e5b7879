"""Idle heartbeats are answered the short way; in tests of groups the general way is gone as well, and must agree.

@pytest.fixture(autouse=True)
def idle_heartbeats(monkeypatch):
    return go_both_ways(monkeypatch)        # counts those that were idle, by the kind of group
"""

from __future__ import annotations

from collections import Counter

from ottla.broker.coordinators.effects import Write
from ottla.broker.coordinators.groups.consumer import protocol as consumer
from ottla.broker.coordinators.groups.share import protocol as share
from ottla.broker.coordinators.groups.streams import protocol as streams

KINDS = (
    (consumer, consumer.ConsumerGroupProtocol, "consumer_heartbeat"),
    (share, share.ShareGroupProtocol, "share_heartbeat"),
    (streams, streams.StreamsGroupProtocol, "streams_heartbeat"),
)


def go_both_ways(monkeypatch):
    idle = Counter()
    for module, protocol, name in KINDS:
        _wrap(monkeypatch, module, protocol, name, idle)
    return idle


def _wrap(monkeypatch, module, protocol, name, idle):
    short, effects = getattr(protocol, name), module.idle_effects

    def counted(*asked):
        idle[name] += 1
        return effects(*asked)

    def heartbeat(self, token, request, context, now_ms):
        before = idle[name]
        found = short(self, token, request, context, now_ms)
        if idle[name] > before:
            general = self.general_heartbeat(token, request, context, now_ms)
            assert _comparable(found) == _comparable(general), request
        return found

    monkeypatch.setattr(module, "idle_effects", counted)
    monkeypatch.setattr(protocol, name, heartbeat)


def _comparable(effects):
    """All but the functions that would say what went wrong, which are made for each request."""
    return [each._replace(failure=None) if isinstance(each, Write) else each for each in effects]
