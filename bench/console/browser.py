"""From the address to the page, in Chromium: until the overview shows its numbers."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Final

from bench.console.brokers import ConsoleBroker
from bench.walk.figures import Figure
from bench.walk.throughput import new_directory
from tests.browser.chromium import find_browser

SHOWN: Final = "() => document.querySelector('.stat .value') !== null"
TOOK_MS: Final = "() => performance.now()"


def loads(root: Path, turns: int) -> list[Figure]:
    """Each load in a browser context of its own, which has kept nothing."""
    from playwright.sync_api import sync_playwright

    times_ms = []
    with new_directory(root) as directory, ConsoleBroker(directory) as broker, sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        for _ in range(turns + 1):
            context = opened.new_context()
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{broker.http_port}/", wait_until="commit")
            page.wait_for_function(SHOWN, polling="raf")
            times_ms.append(float(page.evaluate(TOOK_MS)))
            context.close()
        opened.close()
    first_ms, *others_ms = times_ms
    detail = f"at most {max(others_ms):.0f} ms; the first one, when the broker loads its console, {first_ms:.0f} ms"
    return [
        Figure(
            "page load in Chromium, until it shows numbers", statistics.median(others_ms), detail, " ms", at_most=300
        )
    ]
