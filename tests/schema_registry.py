"""A broker with a schema registry, and where that is: what every test of the registry begins with.

`registry_broker` and `registry_url` are fixtures of every test (tests/conftest.py takes them in). What is registered
stays for all tests of a file, so each test takes subjects of its own.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.patience import HANG_S

if TYPE_CHECKING:
    from ottla.broker.http.parts import Address
    from ottla.testing import KafkaBroker

LISTENER = {"ottla.schema.registry.listener": "127.0.0.1:0"}
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


def url_of(http_parts: Iterable[tuple[str, Address]]) -> str:
    """Where the registry is, of all that a broker serves over HTTP."""
    (found,) = [f"http://{host}:{port}" for name, (host, port) in http_parts if name == "schema registry"]
    return found


def ask(url: str, body: object = None, method: str | None = None) -> Any:
    """What the registry answers, without a client in between; urllib's HTTPError when it refuses."""
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, content, {"Content-Type": CONTENT_TYPE}, method=method)
    with urllib.request.urlopen(request, timeout=HANG_S) as answer:
        return json.loads(answer.read())


@pytest.fixture(scope="module")
def registry_broker() -> Iterator[KafkaBroker]:
    from ottla.testing import KafkaBroker  # not for tests of everything else

    with KafkaBroker(LISTENER) as running:
        yield running


@pytest.fixture(scope="module")
def registry_url(registry_broker: KafkaBroker) -> str:
    return url_of(registry_broker.info.http_parts)
