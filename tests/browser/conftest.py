"""The browser and the pages it opens; one browser for all tests of this folder."""

from __future__ import annotations

import pytest
from tests.browser.chromium import BrowserMissing, axe_script, find_browser
from tests.patience import HANG_S


@pytest.fixture(scope="session")
def browser():
    try:
        program, axe_script_text = find_browser(), axe_script()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        opened.axe = axe_script_text
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser):
    """open_page(broker, "#/topics", theme="dark") gives a page; what goes wrong in it fails the test."""
    contexts = []

    def open_one(broker, address="", theme="light", size=(1360, 850), **options):
        context = browser.new_context(
            color_scheme=theme, viewport={"width": size[0], "height": size[1]}, bypass_csp=False, **options
        )
        context.set_default_timeout(HANG_S * 1000)
        page = context.new_page()
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda said: said.type == "error" and page.problems.append(said.text))
        page.on("request", lambda asked: page.problems.append(asked.url) if not _is_ours(asked.url, broker) else None)
        host, port = broker.info.admin_address
        page.goto(f"http://{host}:{port}/{address}")
        contexts.append((context, page))
        return page

    yield open_one
    problems = [problem for _, page in contexts for problem in page.problems]
    for context, _ in contexts:
        context.close()
    assert problems == []


def _is_ours(url, broker):
    host, port = broker.info.admin_address
    return url.startswith((f"http://{host}:{port}/", "data:"))
