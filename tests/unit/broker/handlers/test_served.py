"""What is served has a handler, and what has a handler is served."""

import inspect
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker import handlers
from ottla.broker.requests.served import (
    BETWEEN_BROKERS,
    BROKER_APIS,
    CLUSTER_APIS,
    SERVED_APIS,
    handler_of,
    served,
)
from ottla.protocol.api import APIS
from ottla.testing.strategies import messages

ROOMS = Path(handlers.__file__).parent
MODULES = sorted(path.stem for path in ROOMS.rglob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("key", sorted(CLUSTER_APIS))
def test_a_handler_declares_its_own_api_and_handles_it(key):
    api = APIS[key]
    assert served(api).request is api.request
    assert list(inspect.signature(handler_of(api).handle).parameters) == ["broker", "request", "context"]


@pytest.mark.parametrize("key", sorted(CLUSTER_APIS - {0}))  # Produce has flat values instead of messages
@given(data=st.data())
def test_what_a_request_needs_can_be_taken_out_of_it_at_every_version(key, data):
    api = APIS[key]
    version = data.draw(st.integers(api.versions.min, api.versions.max))
    request = data.draw(messages(api.request, version))
    for need in served(api).needs:
        if need.names is not None:
            assert all(isinstance(name, str) for name in need.names(request))


def test_every_handler_is_served():
    assert sorted(APIS[key].module for key in CLUSTER_APIS) == MODULES


def test_the_handlers_say_what_they_promise():
    assert all(handler_of(APIS[key]).__doc__ for key in CLUSTER_APIS)


def test_a_broker_on_its_own_takes_no_orders():
    assert {APIS[key].module for key in BROKER_APIS} == {
        path.stem for path in (ROOMS / BETWEEN_BROKERS).glob("[a-z]*.py")
    }
    assert CLUSTER_APIS - SERVED_APIS == BROKER_APIS
