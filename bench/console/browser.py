"""From the address to the page, in Chromium: until the overview shows its numbers.

1. Each load is in a browser context of its own, which has kept nothing; then once more in the same context, as somebody
   who comes back. The first load of a broker, which loads the console, is taken of several brokers.
2. Where the time goes is what the browser itself wrote down (resource timing): until the HTML is there, until all files
   are, until the broker has answered. What is left is the browser's own.
3. The broker's part is its CPU, which says something on a busy machine, too.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.console.brokers import ConsoleBroker
from bench.console.topics import TOPICS, create
from bench.walk.figures import Figure
from bench.walk.throughput import new_directory
from tests.browser.chromium import FLAGS, find_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

FIRST_TURNS: Final = 3
OVERVIEW: Final = ("", "() => document.querySelector('.stat .value') !== null")
TOPIC_LIST: Final = ("#/topics", "() => document.querySelectorAll('tbody tr').length === 100")
TIMES: Final = """() => {
  const [page] = performance.getEntriesByType("navigation");
  const found = performance.getEntriesByType("resource");
  const last = (some) => Math.max(0, ...some.map((each) => each.responseEnd));
  const [asked, files] = [true, false].map((is) => found.filter((each) => each.name.includes("/api/") === is));
  return [performance.now(), page.responseEnd, last(files), last(asked), 1 + found.length];
}"""


class Load(NamedTuple):
    """One load, in milliseconds since the address was entered."""

    shown_ms: float
    html_ms: float
    files_ms: float
    answers_ms: float
    requests: float


def loads(root: Path, turns: int) -> list[Figure]:
    """The overview: the first time, with nothing kept, and again."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        firsts = [_first(root, opened) for _ in range(1 + FIRST_TURNS)][1:]  # the first one writes its bytecode
        with new_directory(root) as directory, ConsoleBroker(directory) as broker:
            _fresh(broker, opened)
            before_s = broker.cpu_s
            fresh = [_fresh(broker, opened) for _ in range(turns)]
            cpu_ms = (broker.cpu_s - before_s) / turns * 1e3
            context = opened.new_context()
            again = [_load(broker, context) for _ in range(turns + 1)][1:]
        opened.close()
    return [
        _figure("page load in Chromium, until it shows numbers", fresh, f"; CPU of the broker {cpu_ms:.0f} ms", 300),
        _figure("the same by somebody who comes back", again, "", 300),
        _figure("the first load of a broker, which loads its console", firsts, "", None),
    ]


def list_of_many(root: Path, turns: int) -> list[Figure]:
    """The list of 10,000 topics, until a page of it is shown."""
    from playwright.sync_api import sync_playwright

    with new_directory(root) as directory, ConsoleBroker(directory) as broker, sync_playwright() as playwright:
        create(broker, TOPICS)
        opened = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        found = [_fresh(broker, opened, *TOPIC_LIST) for _ in range(turns + 1)][1:]
        opened.close()
    return [_figure(f"a page of {TOPICS:,} topics in Chromium", found, "", 300)]


def _first(root: Path, opened: Browser) -> Load:
    with new_directory(root) as directory, ConsoleBroker(directory) as broker:
        return _fresh(broker, opened)


def _fresh(broker: ConsoleBroker, opened: Browser, address: str = OVERVIEW[0], shown: str = OVERVIEW[1]) -> Load:
    context = opened.new_context()
    try:
        return _load(broker, context, address, shown)
    finally:
        context.close()


def _load(broker: ConsoleBroker, context: BrowserContext, address: str = OVERVIEW[0], shown: str = OVERVIEW[1]) -> Load:
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{broker.http_port}/{address}", wait_until="commit")
    page.wait_for_function(shown, polling="raf")
    found = Load(*page.evaluate(TIMES))
    page.close()
    return found


def _figure(name: str, found: Sequence[Load], more: str, at_most: float | None) -> Figure:
    shown, html, files, answers, requests = (statistics.median(column) for column in zip(*found, strict=True))
    longest = max(each.shown_ms for each in found)
    steps = f"HTML after {html:.0f}, files {files:.0f}, answers {answers:.0f} ms; {requests:.0f} requests"
    return Figure(name, shown, f"{steps}; at most {longest:.0f} ms{more}", " ms", at_most=at_most)
