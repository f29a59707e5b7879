"""What a newcomer asks, answered by the pages alone: why does this group not move, who holds back readers, which broker
is behind, where does this record lie. Each test makes the trouble, opens the console, and goes on by what stands there.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.patience import wait_until
from tests.unit.broker.http.http_client import HttpClient

import ottla
from ottla.testing import KafkaBroker
from ottla.testing.cluster import KafkaCluster

HTTP = {"ottla.admin.listener": "127.0.0.1:0"}


@pytest.fixture
def broker(tmp_path):
    with KafkaBroker(HTTP, directory=tmp_path) as made:
        with ottla.Admin(bootstrap_servers=made.bootstrap_servers) as admin:
            admin.create_topics([ottla.NewTopic("orders", 1), ottla.NewTopic("payments", 1)])
        write(made, "orders", 30)
        yield made


def write(broker, topic, count):
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(count):
            producer.send(topic, f"record {number}".encode(), key=b"k")


def commit(broker, group, topic, offset):
    """As a consumer that read so far and went away."""
    place = ottla.TopicPartition(topic, 0)
    with ottla.Consumer(
        bootstrap_servers=broker.bootstrap_servers, group_id=group, enable_auto_commit=False
    ) as consumer:
        consumer.assign([place])
        consumer.commit({place: offset})


@contextmanager
def transaction(broker, name):
    """A program that writes in a transaction and forgets to end it."""
    with ottla.Producer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id=name, transaction_timeout_ms=900_000
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("payments", b"open").get(300)
        yield


# -- why does this group not move -------------------------------------------------------------------------------------


def test_a_group_does_not_move_because_nobody_is_in_it(broker, open_page):
    commit(broker, "nightly", "orders", 10)
    page = open_page(broker)
    page.get_by_role("link", name="All findings").click()
    page.get_by_text("Group nightly is 20 records behind and has no members").wait_for()
    page.get_by_role("link", name="Show it").first.click()
    page.get_by_text("It does not move because nobody is in it").wait_for()
    page.get_by_text("Lag in records", exact=True).wait_for()
    page.get_by_text("Lag in time", exact=True).wait_for()


def test_a_group_does_not_move_because_a_transaction_is_open(broker, open_page):
    commit(broker, "billing", "payments", 0)
    with transaction(broker, "refunds-1"):
        page = open_page(broker)
        page.get_by_role("link", name="Groups").click()
        page.get_by_role("link", name="billing").click()
        page.get_by_text("Readers of committed records cannot go on in payments-0").wait_for()
        page.get_by_role("link", name="Who holds them back").click()
        page.locator("tr", has_text="payments-0").get_by_role("link", name="refunds-1").wait_for()


def test_a_group_does_not_move_because_a_partition_has_no_reader(broker, open_page):
    commit(broker, "report", "payments", 0)
    write(broker, "payments", 5)
    with ottla.Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="report") as consumer:
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(timeout=1)
        page = open_page(broker, "#/groups/report")
        page.get_by_text("Nobody reads payments-0 any more, and there are unread records").wait_for()


# -- who holds back readers -------------------------------------------------------------------------------------------


def test_who_holds_back_readers_is_named_and_ended(broker, open_page):
    with transaction(broker, "refunds-1"):
        page = open_page(broker)
        page.get_by_role("link", name="Transactions").click()
        row = page.locator("tr", has_text="payments-0")
        row.get_by_text("1 record", exact=True).wait_for()
        row.get_by_role("link", name="refunds-1").click()
        page.get_by_text("Ongoing").wait_for()
        page.get_by_role("button", name="Abort").click()
        page.locator("dialog").get_by_role("button", name="Abort").click()
        page.get_by_text("refunds-1 is aborted").wait_for()
        page.get_by_role("link", name="Transactions").first.click()
        page.get_by_text("Nobody. All committed records can be read.").wait_for()


# -- which broker is behind -------------------------------------------------------------------------------------------


class At:
    """Where one broker of a cluster has its console."""

    def __init__(self, server):
        self.info = server.info


@pytest.mark.long
def test_which_broker_is_behind_is_said_on_the_brokers_page(open_page):
    settings = {**HTTP, "replica.lag.time.max.ms": "2000"}
    with KafkaCluster(brokers=3, settings=settings) as cluster:
        with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([ottla.NewTopic("orders", 1, 3)])
        with ottla.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("orders", b"x").get(300)
            cluster.wait_for_copies("orders", 1)
            leader = cluster.leader_of("orders", 0)
            slow = next(each for each in range(3) if each != leader)
            cluster.stop_following(slow, "orders", 0)
            producer.send("orders", b"y").get(300)
        wait_until(lambda: slow not in cluster.in_sync("orders", 0), "the slow one leaves the in-sync set")
        here = At(cluster.server(leader))
        client = HttpClient(here)
        wait_until(lambda: client.get("/api/overview").value["under_replicated"] == 1)
        page = open_page(here)
        page.get_by_role("link", name="All findings").click()
        page.get_by_text(f"Broker {slow} does not have all of its records").wait_for()
        page.get_by_role("link", name="Brokers").click()
        page.get_by_text(f"Broker {slow} is behind: 1 of its").wait_for()
        page.get_by_role("link", name="Topics").click()
        page.get_by_role("link", name="orders").click()
        page.get_by_role("link", name="The inside of partition 0").click()
        page.locator("tr", has_text=f"broker {slow}").get_by_text("behind").wait_for()


# -- where does this record lie ---------------------------------------------------------------------------------------


def test_where_a_record_lies_is_a_file_and_a_position_that_are_so(broker, tmp_path, open_page):
    page = open_page(broker)
    page.get_by_role("link", name="Topics").click()
    page.get_by_role("link", name="orders").click()
    page.get_by_role("link", name="Records", exact=True).click()
    page.locator("tr.record", has_text="record 17").locator("button").first.click()
    page.get_by_role("button", name="Where does it lie?").click()
    path = Path(page.locator(".facts .wide .mono").first.inner_text())
    position = page.locator(".facts div", has_text="Position in the file").locator("dd").first.inner_text()
    assert path.is_relative_to(tmp_path)
    assert re.fullmatch(r"\d{20}\.log", path.name)
    assert b"record 17" in path.read_bytes()[int(position.replace(",", "")) :]
