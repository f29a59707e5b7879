"""Brokers with the console's address known before they start, and pages that are open at them."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.walk.processes import BrokerProcess, Child, free_port


class ConsoleBroker(BrokerProcess):
    """`ottla broker start` with its HTTP door."""

    def __init__(self, directory: Path, *settings: str) -> None:
        self.http_port = free_port()
        super().__init__(directory, (f"ottla.admin.listener=127.0.0.1:{self.http_port}", *settings))

    def get(self, path: str) -> tuple[float, Any]:
        """How long the whole answer took, and its value."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=self.start_limit_s)
        try:
            begun_s = time.perf_counter()
            connection.request("GET", path)
            answer = connection.getresponse()
            content = answer.read()
            took_s = time.perf_counter() - begun_s
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path} was answered {answer.status}: {content[:200]!r}")
        return took_s, json.loads(content) if "json" in answer.headers["content-type"] else content


@contextmanager
def open_pages(broker: ConsoleBroker, pages: Sequence[str], faster: float = 1) -> Iterator[Child]:
    """Pages that ask as browsers do, as long as it is open; `end()` of the child gives what they saw."""
    task = {"port": broker.http_port, "pages": list(pages), "faster": faster}
    with Child("bench.console.polling", json.dumps(task)) as child:
        child.line()
        yield child
