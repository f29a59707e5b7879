"""The console's page of Spark queries with a real one: a stream with commitGroupId, its batches and how far it is.

What the page asks for is checked over HTTP too, without a browser: a query commits with a note, and the note is how
the page knows it (spark/source/group_commits.py).
"""

from __future__ import annotations

import re

import pytest
from tests.patience import HANG_S, wait_until
from tests.spark.running import NOT_OURS
from tests.unit.broker.http.http_client import HttpClient

import ottla
from ottla.testing import KafkaBroker

pytestmark = [pytest.mark.long, *map(pytest.mark.filterwarnings, NOT_OURS)]

GROUP = "revenue-by-country"
NOTE = re.compile(r"spark batch=(\d+)")


class Query:
    """A broker with a console, and a query of Spark that reads its topic."""

    def __init__(self, broker):
        self.broker = broker
        self.http = HttpClient(broker).begin()
        self.sent = 0

    def send(self, count):
        """So many records that arrive together, and are one batch of the query."""
        settings = {"linger_ms": HANG_S * 1000, "batch_size": 1 << 20}
        with ottla.Producer(bootstrap_servers=self.broker.bootstrap_servers, **settings) as producer:
            for number in range(count):
                producer.send("orders", b"%d" % number, partition=0)
            producer.flush()
        self.sent += count

    def batches_when_done(self):
        """How many batches the group says when all that was sent is committed."""
        wait_until(self._is_done, "the query commits to its group")
        (offset,) = self.group()["offsets"]
        return int(NOTE.fullmatch(offset["metadata"])[1])

    def _is_done(self):
        return [each["committed"] for each in self.group().get("offsets", ())] == [self.sent]

    def group(self):
        answer = self.http.get(f"/api/groups/{GROUP}")
        return answer.value if answer.status == 200 else {}


@pytest.fixture(scope="module")
def query(spark, tmp_path_factory):
    settings = {"ottla.admin.listener": "127.0.0.1:0", "num.partitions": "1"}
    with KafkaBroker(settings) as broker:
        made = Query(broker)
        made.send(5)
        options = {"subscribe": "orders", "startingOffsets": "earliest", "commitGroupId": GROUP}
        stream = spark.readStream.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap_servers)
        checkpoint = str(tmp_path_factory.mktemp("checkpoint"))
        writer = stream.options(**options).load().writeStream.format("noop").option("checkpointLocation", checkpoint)
        running = writer.trigger(processingTime="0 seconds").start()
        yield made
        running.stop()


def test_a_query_counts_its_batches_in_its_group(query):
    first = query.batches_when_done()
    query.send(20)
    assert query.batches_when_done() == first + 1
    (listed,) = [each for each in query.http.get("/api/groups", limit=500).value["groups"] if each["id"] == GROUP]
    assert (listed["state"], listed["note"]) == ("Empty", f"spark batch={first + 1}")
    assert query.group()["lag"] == 0


def test_the_page_shows_the_query_and_its_last_batch(query, open_page):
    before = query.batches_when_done()
    page = open_page(query.broker, "#/queries")
    row = page.get_by_role("row", name=GROUP)
    row.get_by_text("none while this page is open").wait_for()
    assert row.get_by_role("cell").all_inner_texts()[1:5] == ["orders", "0", "0 s", str(before)]
    query.send(30)
    row.get_by_text(re.compile(r"^30 records, .* ago$")).wait_for()
    assert query.batches_when_done() == before + 1
    assert row.get_by_role("cell").all_inner_texts()[4] == str(before + 1)
