"""The browser and the pages it opens; one browser for all tests of a file.

Not one for the whole run: Playwright keeps an event loop running in the thread of the tests for as long as it is open,
and tests of other folders start loops of their own there.
"""

from __future__ import annotations

import pytest
from tests.browser.chromium import FLAGS, BrowserMissing, axe_script, find_browser
from tests.patience import HANG_S


@pytest.fixture(scope="module")
def browser():
    try:
        program, axe_script_text = find_browser(), axe_script()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=FLAGS)
        opened.axe = axe_script_text
        yield opened
        opened.close()


class Pages:
    """Pages of one browser, and what went wrong in them: errors of scripts, refused requests, requests to others."""

    def __init__(self, browser):
        self.browser = browser
        self.opened = []

    def open(self, broker, theme="light", size=(1360, 850), **options):
        context = self.browser.new_context(
            color_scheme=theme, viewport={"width": size[0], "height": size[1]}, bypass_csp=False, **options
        )
        context.set_default_timeout(HANG_S * 1000)
        page = context.new_page()
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda said: said.type == "error" and page.problems.append(said.text))
        page.on("request", lambda asked: page.problems.append(asked.url) if not _is_ours(asked.url, broker) else None)
        self.opened.append((context, page))
        return page

    def problems(self):
        found = [problem for _, page in self.opened for problem in page.problems]
        for _, page in self.opened:
            page.problems.clear()
        return found

    def close(self):
        for context, _ in self.opened:
            context.close()


@pytest.fixture
def open_page(browser):
    """open_page(broker, "#/topics", theme="dark") gives a page; what goes wrong in it fails the test."""
    pages = Pages(browser)

    def open_one(broker, address="", theme="light", **options):
        page = pages.open(broker, theme, **options)
        page.goto(_url(broker, address))
        return page

    yield open_one
    problems = pages.problems()
    pages.close()
    assert problems == []


@pytest.fixture(scope="module")
def kept_pages(browser):
    pages = Pages(browser)
    pages.by_broker = {}
    yield pages
    pages.close()


@pytest.fixture
def visit(kept_pages):
    """visit(broker, "#/topics") goes on in a page that stays open from test to test, as people do: light, and wide."""

    def visit_one(broker, address):
        page = kept_pages.by_broker.get(broker) or kept_pages.open(broker)
        kept_pages.by_broker[broker] = page
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1360, "height": 850})
        page.goto(_url(broker, address))
        page.locator(f'[data-shown="{address}"]').wait_for(state="attached")  # and not the page that was there before
        return page

    yield visit_one
    assert kept_pages.problems() == []


def _url(broker, address):
    host, port = broker.info.admin_address
    return f"http://{host}:{port}/{address}"


def _is_ours(url, broker):
    return url.startswith((_url(broker, ""), "data:"))
