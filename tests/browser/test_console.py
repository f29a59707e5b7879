"""The console in a real browser: every page, with data and empty, records that would be scripts, keys, dark, login.

`make setup-browser` fetches what these want; CI does it. Ten thousand topics, and the pictures, are `long`.
OTTLA_SCREENSHOTS=docs/images writes the pictures of docs/console.md.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import pytest
from bench.console.polling import PAGES as POLLED
from tests.browser.shop import SCRIPT, shop
from tests.patience import wait_until

import ottla
from ottla.testing import KafkaBroker

PAGES = {
    "overview": ("#/overview", "Records in"),
    "brokers": ("#/brokers", "Log directories of this broker"),
    "topics": ("#/topics", "orders"),
    "topic": ("#/topics/orders", "High watermark"),
    "records": ("#/topics/orders/records", "user-"),
    "settings": ("#/topics/orders/settings", "retention.ms"),
    "schemas": ("#/schemas", "shipments-value"),
    "schema": ("#/schemas/shipments-value", "Version 2"),
    "groups": ("#/groups", "nightly-report"),
    "group": ("#/groups/billing", "Members"),
    "share group": ("#/groups/packers", "Done before"),
    "transactions": ("#/transactions", "refunds-1"),
    "access": ("#/access", "There is no authorizer"),
    "doctor": ("#/doctor", "nightly-report"),
    "inside": ("#/topics/payments/inside/0?offset=120", "Where offset 120 lies"),
    "flow": ("#/flow", "Group commit"),
    "metadata": ("#/metadata", "is created"),
    "clients": ("#/clients", "Batches that wait"),
    "queries": ("#/queries", "revenue-by-country"),
}
EMPTY = {
    "overview": "Records in",
    "brokers": "Log directories of this broker",
    "topics": "There are no topics yet",
    "schemas": "There are no schemas yet",
    "groups": "There are no groups yet",
    "transactions": "There are no transactions yet",
    "access": "There is no authorizer",
    "doctor": "Nothing is wrong",
    "flow": "Group commit",
    "metadata": "Newest snapshot",
    "clients": "Nobody asks clients for their numbers",
    "pipelines": "No service publishes a pipeline",
    "queries": "No Spark query commits to a group",
}
ROOT = Path(__file__).parent.parent.parent
PICTURES = (
    "overview",
    "topics",
    "records",
    "schema",
    "group",
    "inside",
    "flow",
    "metadata",
    "clients",
    "transactions",
    "doctor",
)
HEIGHTS = {"topics": 680, "transactions": 520, "doctor": 590, "clients": 700}
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    with contextlib.chdir(tmp_path_factory.mktemp("console")), shop(Path("shop")) as broker:
        yield broker


@pytest.fixture(scope="module")
def quiet():
    with KafkaBroker({"ottla.admin.listener": "127.0.0.1:0"}) as broker:
        yield broker


def faults(page, browser, *rules):
    """What axe-core finds of serious kinds, by these rules or by all; it is run in the page's own world, past its
    content policy."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(browser.axe)
    found = page.evaluate(
        "async (rules) => (await axe.run(document, rules.length ? { runOnly: rules } : {})).violations", rules
    )
    return [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found if each["impact"] in SERIOUS]


def is_too_wide(page):
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")


@pytest.mark.parametrize("name", PAGES)
def test_every_page_shows_what_there_is_and_everybody_can_use_it(name, busy, visit, browser):
    """Light, then dark, which only changes colours, then in a narrow window."""
    address, text = PAGES[name]
    page = visit(busy, address)
    page.locator("main").get_by_text(text).first.wait_for()
    assert page.locator("h1").count() == 1
    assert page.locator(".note.bad:visible").count() == 0
    wait_until(lambda: theme_of(page) == "light")
    assert faults(page, browser) == []
    assert not is_too_wide(page)
    page.emulate_media(color_scheme="dark")
    wait_until(lambda: theme_of(page) == "dark")
    assert faults(page, browser, "color-contrast") == []
    page.set_viewport_size({"width": 420, "height": 800})
    page.locator("main").get_by_text(text).first.wait_for()
    assert not is_too_wide(page)
    drawn = page.locator("svg.draw")
    assert all(drawn.nth(at).bounding_box()["width"] > 600 for at in range(drawn.count())), "too small to read"


def theme_of(page):
    return page.evaluate("document.documentElement.dataset.theme")


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_broker_has_pages_too(name, quiet, visit, browser):
    page = visit(quiet, PAGES.get(name, (f"#/{name}",))[0])  # pipelines: test_pipelines.py has one
    page.locator("main").get_by_text(EMPTY[name]).first.wait_for()
    page.wait_for_load_state("networkidle")
    assert page.locator(".note.bad:visible").count() == 0
    assert faults(page, browser) == []


def test_records_with_script_tags_stay_text(busy, open_page):
    page = open_page(busy, "#/topics/users/records")
    page.get_by_text(SCRIPT).first.wait_for()
    page.get_by_role("button", name="1", exact=True).click()
    page.locator(".detail pre", has_text="<script>").first.wait_for()
    assert page.title() != "owned"
    assert page.locator("main script, main img").count() == 0


def test_a_filter_finds_and_a_wrong_one_says_where(busy, open_page):
    page = open_page(busy, "#/topics/orders/records")
    page.get_by_text("user-").first.wait_for()
    page.get_by_label("Filter").fill('value.user.country == "CZ" and value.total > 300')
    page.get_by_role("button", name="Show").click()
    page.locator("tr.record").filter(has_not_text='"CZ"').first.wait_for(state="detached")
    page.locator("tr.record").first.wait_for()
    page.get_by_label("Filter").fill("value.total >>")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("alert").get_by_text("character").wait_for()
    page.problems.clear()  # the browser names the refused request


def test_a_topic_is_followed_live_and_written_to(busy, open_page):
    page = open_page(busy, "#/topics/clicks/records")
    page.get_by_text("/product/").first.wait_for()
    page.get_by_role("button", name="Follow").click()
    with ottla.Producer(bootstrap_servers=busy.bootstrap_servers) as producer:
        producer.send("clicks", b"came while we followed").get(60)
    page.get_by_text("came while we followed").wait_for()
    page.get_by_role("button", name="Write a record").click()
    page.get_by_role("textbox", name="Value", exact=True).fill("written in the console")
    page.get_by_role("button", name="Write", exact=True).click()
    page.get_by_text("Written at offset").wait_for()


def test_a_group_is_moved_after_a_preview(busy, open_page):
    page = open_page(busy, "#/groups/nightly-report")
    page.get_by_text("It does not move because nobody is in it").wait_for()
    page.get_by_role("button", name="Move its offsets").click()
    page.get_by_role("button", name="Preview").click()
    page.locator("dialog td").first.wait_for()
    page.get_by_role("button", name="Move", exact=True).click()
    page.get_by_text("nightly-report is moved").wait_for()


def test_a_setting_is_changed_where_it_stands(busy, open_page):
    page = open_page(busy, "#/topics/users/settings")
    page.get_by_role("button", name="Change retention.ms").click()
    page.get_by_label("New value").fill("86400000")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("retention.ms is changed").wait_for()
    page.locator("tr", has_text="retention.ms").get_by_text("86400000").first.wait_for()


def test_keys_go_to_pages_and_to_the_search(busy, open_page):
    page = open_page(busy, "#/overview")
    page.locator("h1").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.get_by_role("heading", name="Topics").wait_for()
    page.get_by_role("link", name="orders").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("pay")
    page.get_by_role("link", name="orders").wait_for(state="detached")
    page.keyboard.press("Tab")
    page.locator("h1").click()
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keys").wait_for()


def test_a_locked_broker_asks_who_it_is(open_page, browser):
    locked = {
        "ottla.admin.listener": "127.0.0.1:0",
        "ottla.admin.login": "true",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "connection.failed.authentication.delay.ms": 0,
    }
    with KafkaBroker(locked, users={"admin": "right"}) as broker:
        page = open_page(broker)
        page.get_by_label("User").fill("admin")
        page.get_by_label("Password").fill("wrong")
        assert faults(page, browser) == []
        page.get_by_role("button", name="Log in").click()
        page.get_by_text("this is not the password").wait_for()
        page.get_by_label("Password").fill("right")
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name="Overview").wait_for()
        assert page.evaluate("document.cookie") == ""
        page.problems.clear()  # the browser names the refused login
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("User").wait_for()
        # What the page had asked when it logged out may be refused, and the browser names that, too.
        page.problems[:] = [each for each in page.problems if "401 (Unauthorized)" not in each]


def test_a_read_only_console_offers_no_change(open_page):
    with KafkaBroker({"ottla.admin.listener": "127.0.0.1:0", "ottla.console.read.only": "true"}) as broker:
        with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([ottla.NewTopic("orders", 1)])
        page = open_page(broker, "#/topics")
        page.get_by_text("read-only").wait_for()
        for address, text in (("", "orders"), ("/orders", "High watermark"), ("/orders/settings", "retention.ms")):
            page.goto(page.url.partition("#")[0] + f"#/topics{address}")
            page.locator("main").get_by_text(text).first.wait_for()
            assert page.locator("main button:not(th button)").count() == 0
        page.goto(page.url.partition("#")[0] + "#/topics/orders/records")
        page.get_by_text("No records here").wait_for()
        assert page.get_by_role("button", name="Write a record").count() == 0


def test_a_broker_that_does_not_answer_is_said_with_the_time_of_what_is_shown(open_page):
    with KafkaBroker({"ottla.admin.listener": "127.0.0.1:0"}) as broker:
        page = open_page(broker, "#/flow")
        page.get_by_text("Group commit").first.wait_for()
    page.get_by_role("alert").get_by_text("The broker does not answer. What is shown here is of").wait_for()
    page.close()
    page.problems.clear()  # the browser named every question without an answer


def test_what_is_not_there_is_said_on_its_page(quiet, open_page):
    for address, said in (("#/topics/nowhere", "no topic 'nowhere'"), ("#/schemas/none", "Subject 'none' not found")):
        page = open_page(quiet, address)
        page.get_by_role("alert").get_by_text(said).wait_for()
        page.close()  # it would ask again
        page.problems.clear()  # the browser named the refused request


def test_the_button_keeps_light_or_dark_whatever_the_system_says(quiet, open_page):
    page = open_page(quiet, "#/overview")
    page.get_by_role("button", name="Light or dark").click()
    assert theme_of(page) == "dark"
    page.reload()
    page.get_by_text("Records in").first.wait_for()
    assert theme_of(page) == "dark"


def test_a_page_that_is_drawn_anew_leaves_the_keyboard_and_the_scroll_where_they_were(busy, open_page):
    page = open_page(busy, "#/topics/orders", size=(420, 800))
    page.get_by_role("link", name="The inside of partition 1").focus()
    page.locator(".scroll").first.evaluate("each => { each.scrollLeft = 50; each.dataset.isOld = 'yes'; }")
    page.locator(".scroll[data-is-old]").wait_for(state="detached")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "The inside of partition 1"
    assert page.locator(".scroll").first.evaluate("each => each.scrollLeft") == 50


@pytest.fixture(scope="module")
def large():
    """Ten thousand topics."""
    with KafkaBroker({"ottla.admin.listener": "127.0.0.1:0"}) as broker:
        with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for start in range(0, 10_000, 500):
                admin.create_topics([ottla.NewTopic(f"t-{n:05}", 1) for n in range(start, start + 500)], timeout=300)
        yield broker


@pytest.mark.long
def test_ten_thousand_topics_are_paged_sorted_and_searched(large, open_page):
    page = open_page(large, "#/topics")
    page.get_by_text("1 to 100 of 10,000").wait_for()
    page.get_by_role("button", name="Next").click()
    page.get_by_text("101 to 200 of 10,000").wait_for()
    assert page.locator("tbody tr").count() == 100
    page.get_by_role("button", name="Size").click()
    page.get_by_text("1 to 100 of 10,000").wait_for()
    page.get_by_label("Find").fill("t-09999")
    page.get_by_text("1 to 1 of 1").wait_for()
    page.get_by_role("link", name="t-09999").click()
    page.get_by_text("High watermark").first.wait_for()


@pytest.mark.long
@pytest.mark.parametrize("name", EMPTY)
def test_every_page_opens_beside_ten_thousand_topics(name, large, open_page, browser):
    page = open_page(large, PAGES[name][0])
    page.get_by_text("t-00000" if name == "topics" else EMPTY[name]).first.wait_for()
    page.wait_for_load_state("networkidle")
    assert page.locator(".note.bad:visible").count() == 0
    assert faults(page, browser) == []


@pytest.mark.long
@pytest.mark.parametrize("name", POLLED)
def test_the_bench_asks_what_the_page_asks(name, quiet, open_page):
    page = open_page(quiet, PAGES[name][0])
    asked = set()
    name_of = re.compile(r".*/api/|[?&]?after=.*|.*/static/.*")
    page.on("request", lambda request: asked.add(name_of.sub("", request.url)))
    wanted = {name_of.sub("", path) for _, path in POLLED[name]}
    wait_until(lambda: page.wait_for_timeout(200) or asked >= wanted)
    assert asked - {"", "session"} == wanted


@pytest.mark.long
@pytest.mark.parametrize("name", PICTURES)
def test_pictures_for_the_docs(name, busy, open_page, tmp_path):
    folder = ROOT / (os.environ.get("OTTLA_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    address, text = PAGES[name]
    theme = "dark" if name in ("flow", "inside", "clients") else "light"
    page = open_page(busy, address, theme, size=(1360, HEIGHTS.get(name, 850)))
    page.get_by_text(text).first.wait_for()
    if name == "records":
        page.get_by_label("Filter").fill('value.user.country == "CZ" and value.total > 100')
        page.get_by_role("button", name="Show").click()
        page.locator("tr.record").filter(has_not_text='"CZ"').first.wait_for(state="detached")
        page.locator("tr.record button").nth(3).click()
    for number in range(9 if name in ("overview", "flow", "group", "clients") else 1):
        for _ in range(12):
            for _ in range(40 + 25 * (number % 4)):
                busy.web_shop.send("clicks", b"/product/7")
            page.wait_for_timeout(100)
    page.screenshot(path=folder / f"console-{name}.png")
    assert (folder / f"console-{name}.png").stat().st_size > 10_000
