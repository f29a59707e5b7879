"""Heartbeats of share groups that are answered the short way are answered the general way, too, and must agree."""

import pytest
from tests.unit.broker.coordinators.groups.both_ways import go_both_ways


@pytest.fixture(autouse=True)
def idle_heartbeats(monkeypatch):
    """How many heartbeats went the short way."""
    return go_both_ways(monkeypatch)
