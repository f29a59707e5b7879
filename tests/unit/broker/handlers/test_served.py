"""What is served has a handler, and what has a handler is served."""

from importlib import import_module
from pathlib import Path

import pytest

from ottla.broker import handlers
from ottla.broker.requests.served import BETWEEN_BROKERS, CLUSTER_APIS, SERVED_APIS
from ottla.protocol.api import APIS

MODULES = sorted(path.stem for path in Path(handlers.__file__).parent.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("key", sorted(CLUSTER_APIS))
def test_a_served_api_has_a_handler(key):
    assert callable(import_module(f"ottla.broker.handlers.{APIS[key].module}").handle)


def test_every_handler_is_served():
    assert sorted(APIS[key].module for key in CLUSTER_APIS) == MODULES


def test_the_handlers_say_what_they_promise():
    assert all(import_module(f"ottla.broker.handlers.{name}").__doc__ for name in MODULES)


def test_a_broker_on_its_own_takes_no_orders():
    assert BETWEEN_BROKERS.isdisjoint(SERVED_APIS)
    assert CLUSTER_APIS - SERVED_APIS <= BETWEEN_BROKERS
