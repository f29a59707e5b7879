"""The console's API against a running broker: what people ask it, and what it answers."""

import json
import re

import pytest
from tests.patience import HANG_S, wait_until
from tests.unit.broker.http.http_client import HttpClient

import ottla
import ottla.broker.console.part
import ottla.broker.http.serving  # loaded here, and not by a broker's thread in the middle of a test
from ottla.client.telemetry import push
from ottla.errors import OttlaError
from ottla.testing.broker import KafkaBroker

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def kafka():
    with KafkaBroker({"ottla.admin.listener": "127.0.0.1:0"}) as broker:
        broker.http = HttpClient(broker).begin()
        broker.http.post("/api/topics", {"name": "orders", "partitions": 2})
        for number in range(30):
            body = {
                "key": f"user-{number}",
                "value": json.dumps({"id": number, "total": number * 10, "note": SCRIPT}),
                "headers": {"trace": f"t{number}"},
                "partition": number % 2,
            }
            assert broker.http.post("/api/topics/orders/records", body).status == 201
        yield broker


@pytest.fixture
def http(kafka):
    return kafka.http


def ids(answer):
    assert answer.status == 200, answer
    return [json.loads(each["value"]["text"])["id"] for each in answer.value["records"]]


RECORDS = "/api/topics/orders/records"


def test_the_overview_counts(http):
    found = http.get("/api/overview").value
    assert (found["brokers"], found["topics"], found["under_replicated"], found["without_leader"]) == (1, 1, 0, 0)
    assert found["size_bytes"] > 0
    brokers = http.get("/api/brokers").value
    assert [(each["id"], each["is_active"], each["is_controller"]) for each in brokers["brokers"]] == [(0, True, True)]
    assert set(http.get("/api/rates").value) >= {"at_ms", "messages_in", "bytes_in", "sync_ms"}


def script_of(page):
    return re.search(r'src="(/static/\w+/app.js)"', page.content.decode())[1]


def test_a_page_that_the_browser_has_is_not_sent_again(http):
    first = http.get("/")
    assert (first.status, first.headers["cache-control"]) == (200, "no-cache")
    again = http.ask("GET", "/", If_None_Match=first.headers["etag"])
    assert (again.status, again.content) == (304, b"")
    assert http.ask("GET", "/", If_None_Match='"another"').status == 200


def test_files_are_kept_for_good_under_the_address_of_their_version(http):
    path = script_of(http.get("/"))
    found = http.get(path)
    assert (found.status, len(found.content) > 1000) == (200, True)
    assert "immutable" in found.headers["cache-control"]
    assert http.ask("GET", path, If_None_Match=found.headers["etag"]).status == 304


def test_a_page_of_another_version_gets_files_of_today_and_keeps_none(http):
    today = http.get(script_of(http.get("/")))
    found = http.get("/static/0123456789abcdef/app.js")
    assert (found.status, found.content) == (200, today.content)
    assert found.headers["cache-control"] == "no-cache"
    assert http.get("/static/0123456789abcdef/index.html").status == 404
    assert http.get("/static/0123456789abcdef/../part.py").status == 404


def test_rates_are_asked_for_from_a_time_on(http):
    assert http.get("/api/rates", after=1 << 60).value["messages_in"] == []
    assert http.get("/api/rates", after="x").status == 400
    both = http.get("/api/overview", after=1 << 60).value
    assert (both["rates"]["messages_in"], both["brokers"]) == ([], 1)
    assert "rates" not in http.get("/api/overview").value


def test_topics_are_listed_searched_and_described(http):
    found = http.get("/api/topics", contains="ORD").value
    assert [(each["name"], each["partitions"], each["records"]) for each in found["topics"]] == [("orders", 2, 30)]
    assert http.get("/api/topics", contains="nothing").value == {"topics": [], "total": 0}
    assert http.get("/api/topics", sort="nonsense").status == 400
    topic = http.get("/api/topics/orders").value
    assert [(each["high_watermark"], each["in_sync"]) for each in topic["partition_list"]] == [(15, [0]), (15, [0])]
    assert http.get("/api/topics/nowhere").status == 404


# -- records ----------------------------------------------------------------------------------------------------------


def test_the_newest_records_come_first_page_by_page(http):
    page = http.get(RECORDS, limit=10)
    assert sorted(ids(page)) == list(range(20, 30))
    older = http.get(RECORDS, limit=10, before=page.value["before"])
    assert sorted(ids(older)) == list(range(10, 20))
    oldest = http.get(RECORDS, limit=10, before=older.value["before"])
    assert sorted(ids(oldest)) == list(range(10))
    assert ids(http.get(RECORDS, limit=10, before=oldest.value["before"])) == []


def test_reading_on_finds_every_record_once(http):
    found, after = [], None
    while True:
        page = http.get(RECORDS, limit=7, **({"after": after} if after else {"from": "earliest"}))
        found += ids(page)
        if not page.value["records"]:
            break
        after = page.value["after"]
    assert sorted(found) == list(range(30))  # those of one millisecond stand by their partitions


def test_a_topic_is_followed_from_its_end(kafka, http):
    end = http.get(RECORDS, limit=2).value["after"]
    assert ids(http.get(RECORDS, after=end)) == []
    http.post("/api/topics", {"name": "tail", "partitions": 1})
    first = http.get("/api/topics/tail/records").value
    http.post("/api/topics/tail/records", {"value": "later"})
    second = http.get("/api/topics/tail/records", after=first["after"]).value
    assert [each["value"]["text"] for each in second["records"]] == ["later"]
    http.ask("DELETE", "/api/topics/tail")


def test_records_are_found_by_offset_time_and_partition(http):
    assert ids(http.get(RECORDS, **{"from": "offset", "offset": 13, "partition": 1})) == [27, 29]
    some = http.get(RECORDS, **{"from": "earliest", "partition": 0}).value["records"]
    moment = some[5]["timestamp_ms"]
    assert ids(http.get(RECORDS, **{"from": "time", "timestamp": moment, "partition": 0}))[0] <= 10
    assert ids(http.get(RECORDS, **{"from": "time", "timestamp": moment * 2})) == []
    assert http.get(RECORDS, partition=7).status == 404
    assert http.get(RECORDS, **{"from": "nowhere"}).status == 400
    assert http.get(RECORDS, after="nonsense").status == 400
    assert http.get(RECORDS, limit=0).status == 400


def test_records_are_chosen_by_text_and_by_filter(http):
    assert ids(http.get(RECORDS, text="USER-17")) == [17]
    assert sorted(ids(http.get(RECORDS, filter="value.total >= 270 and partition == 1"))) == [27, 29]
    assert ids(http.get(RECORDS, filter='headers.trace == "t3"')) == [3]
    assert sorted(ids(http.get(RECORDS, filter="value.id < 3", **{"from": "earliest"}))) == [0, 1, 2]
    answer = http.get(RECORDS, filter="value.total >>")
    assert (answer.status, answer.value["error"]) == (400, "BAD_FILTER")


def test_a_page_of_matches_goes_on_where_it_ended(http):
    page = http.get(RECORDS, filter="value.id >= 0", limit=12)
    older = http.get(RECORDS, filter="value.id >= 0", limit=12, before=page.value["before"])
    last = http.get(RECORDS, filter="value.id >= 0", limit=12, before=older.value["before"])
    assert sorted([*ids(page), *ids(older), *ids(last)]) == list(range(30))


def test_a_script_in_a_record_is_json_of_text(http):
    answer = http.get(RECORDS, limit=1)
    assert answer.headers["content-type"].startswith("application/json")
    assert SCRIPT in answer.value["records"][0]["value"]["text"]


def test_one_record_whole_and_where_it_lies(http):
    big = "x" * 100_000
    answer = http.post(RECORDS, {"value": big, "partition": 0})
    offset = answer.value["offset"]
    page = http.get(RECORDS, limit=1, partition=0).value["records"][0]
    assert (page["value"]["is_cut"], page["value"]["size"]) == (True, 100_000)
    whole = http.get(f"/api/topics/orders/partitions/0/records/{offset}").value
    assert whole["value"]["text"] == big
    place = http.get(f"/api/topics/orders/partitions/0/place/{offset}").value
    assert place["file"] == "00000000000000000000.log"
    assert place["base_offset"] <= offset <= place["last_offset"]
    assert place["batch_size_bytes"] > 100_000
    assert http.get("/api/topics/orders/partitions/0/place/999").status == 404
    assert http.get("/api/topics/orders/partitions/0/records/999").status == 404


def test_a_tombstone_and_a_wrong_record(http):
    http.post("/api/topics", {"name": "gone", "partitions": 1})
    assert http.post("/api/topics/gone/records", {"key": "k", "value": None}).status == 201
    assert http.get("/api/topics/gone/records").value["records"][0]["value"]["kind"] == "null"
    assert http.post("/api/topics/gone/records", {"value": 7}).status == 400
    assert http.post("/api/topics/gone/records", {"value": "v", "partition": 9}).status == 404
    assert http.post("/api/topics/nowhere/records", {"value": "v"}).status == 404


# -- the inside -------------------------------------------------------------------------------------------------------


def test_the_inside_of_a_partition(http):
    found = http.get("/api/topics/orders/partitions/1/inside").value
    assert (found["log_start_offset"], found["high_watermark"], found["log_end_offset"]) == (0, 15, 15)
    assert [each["file"] for each in found["segments"]] == ["00000000000000000000.log"]
    assert found["epochs"] == [[0, 0]]
    assert http.get("/api/topics/orders/partitions/7/inside").status == 404
    assert http.get("/api/topics/orders/partitions/x/inside").status == 404


def test_the_live_picture_has_numbers(http):
    found = http.get("/api/flow").value
    assert {"connections", "requests_in_flight", "requests_unbegun", "answers_unsent"} <= set(found)
    assert {"requests", "apis", "produce_waiting", "fetch_waiting", "syncs", "followers"} <= set(found)
    assert found["messages_in"] >= 30


# -- groups -----------------------------------------------------------------------------------------------------------


def test_the_metadata_log_is_told_as_sentences(http):
    http.post("/api/topics", {"name": "told", "partitions": 1, "settings": {"retention.ms": "1000"}})
    found = http.get("/api/metadata-log", count=3).value
    assert [each["sentence"] for each in found["records"]] == [
        "told-0 is made on 0, led by broker 0",
        "retention.ms of topic told is set to 1000",
        "Topic told is created",
    ]
    assert found["records"][0]["offset"] == found["high_watermark"] - 1 == found["applied_offset"]
    assert (found["is_kept"], found["node"], found["leader"], found["silence"]) == (True, 0, 0, "")
    assert len(http.get("/api/metadata-log", count=100000).value["records"]) <= 200
    everything = http.get("/api/metadata-log", count=200).value["records"]
    assert everything[-1]["sentence"] == "Controller 0 leads the metadata log"
    assert all(each["sentence"] for each in everything)


def test_the_quorum_of_a_broker_alone_is_itself(http):
    found = http.get("/api/metadata-log", count=1).value
    (voter,) = found["voters"]
    assert (voter["id"], voter["is_leader"], voter["voted_for"], voter["lag"]) == (0, True, 0, 0)
    assert (found["observers"], found["observers_count"], found["troubles"]) == ([], 0, [])
    (election,) = found["elections"]
    assert (election["leader"], election["epoch"], election["offset"]) == (0, found["epoch"], 0)
    assert (election["voters"], election["granted"], election["led_ms"]) == ([0], [0], None)
    checks = {each["name"]: each["count"] for each in http.get("/api/findings").value["checks"]}
    assert checks["quorum"] == 0


def test_a_group_with_its_lag_and_its_way_back(kafka, http):
    servers = kafka.bootstrap_servers
    with ottla.Consumer(bootstrap_servers=servers, group_id="team/billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        while len(consumer.assignment()) < 2:
            consumer.poll(timeout=1)
        consumer.commit({place: consumer.position(place) for place in consumer.assignment()})
        group = http.get("/api/groups/team/billing").value
        assert (group["state"], group["kind"], len(group["members"])) == ("Stable", "classic", 1)
        assert sorted(group["members"][0]["assigned"]) == ["orders-0", "orders-1"]
        refused = http.post("/api/groups/team/billing/reset", {"to": "earliest", "dry_run": False})
        assert refused.status == 409, refused
    moved = http.post("/api/groups/team/billing/reset", {"to": "offset", "value": 5})
    assert [(each["partition"], each["to"]) for each in moved.value["offsets"]] == [(0, 5), (1, 5)]
    assert http.get("/api/groups/team/billing").value["offsets"][0]["committed"] != 5, "a preview moves nothing"
    body = {"to": "offset", "value": 5, "topic": "orders", "partitions": [0], "dry_run": False}
    assert http.post("/api/groups/team/billing/reset", body).status == 200
    rows = {each["partition"]: each for each in http.get("/api/groups/team/billing").value["offsets"]}
    assert (rows[0]["committed"], rows[0]["lag"]) == (5, rows[0]["end"] - 5)
    assert rows[0]["lag_ms"] > 0
    listed = {each["id"]: each for each in http.get("/api/groups").value["groups"]}
    assert listed["team/billing"]["lag"] >= 10
    assert listed["team/billing"]["lag_ms"] > 0
    assert listed["team/billing"]["note"] == "console"
    answer = http.get("/api/findings").value
    assert any("team/billing" in each["what"] for each in answer["findings"])
    checks = {each["name"]: each["count"] for each in answer["checks"]}
    assert (checks["groups"] > 0, checks["leaders"], checks["copies"]) == (True, 0, 0)
    assert {each["check"] for each in answer["findings"]} <= set(checks)
    assert http.post("/api/groups/team/billing/reset", {"to": "somewhere"}).status == 400
    assert http.ask("DELETE", "/api/groups/team/billing").status == 200
    assert http.get("/api/groups/team/billing").status == 404


def test_readers_that_wait_for_a_transaction_are_found(kafka, http):
    http.post("/api/topics", {"name": "waited", "partitions": 1})
    place = ottla.TopicPartition("waited", 0)
    with (
        ottla.Producer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="slow") as producer,
        ottla.Consumer(bootstrap_servers=kafka.bootstrap_servers, group_id="readers") as consumer,
    ):
        consumer.assign([place])
        consumer.commit({place: 0})
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("waited", b"open").get(120)
        (row,) = http.get("/api/groups/readers").value["offsets"]
        assert (row["lag"], row["is_held"]) == (1, True)
        producer.abort_transaction()
        (row,) = http.get("/api/groups/readers").value["offsets"]
        assert row["is_held"] is False


def test_a_share_group_has_start_offsets_and_is_moved(kafka, http):
    http.post("/api/topics", {"name": "work", "partitions": 1})
    for number in range(3):
        http.post("/api/topics/work/records", {"value": str(number)})
    http.post("/api/settings/group/workers", {"setting": "share.auto.offset.reset", "value": "earliest"})
    with ottla.ShareConsumer("work", bootstrap_servers=kafka.bootstrap_servers, group_id="workers") as worker:
        wait_until(lambda: worker.poll(1.0))
        group = http.get("/api/groups/workers").value
        assert (group["kind"], len(group["members"])) == ("share", 1)
    wait_until(lambda: not http.get("/api/groups/workers").value["members"])
    (row,) = http.get("/api/groups/workers").value["offsets"]
    assert (row["topic"], row["end"], row["lag"]) == ("work", 3, 3 - row["committed"])
    assert http.post("/api/groups/workers/reset", {"to": "offset", "value": 1}).value["offsets"][0]["to"] == 1
    assert http.post("/api/groups/workers/reset", {"to": "offset", "value": 1, "dry_run": False}).status == 200
    group = http.get("/api/groups/workers").value
    assert (group["offsets"][0]["committed"], group["lag"]) == (1, 2)
    assert group["lag_ms"] > 0


# -- transactions -----------------------------------------------------------------------------------------------------


def test_who_holds_back_readers_and_how_to_end_it(kafka, http):
    http.post("/api/topics", {"name": "payments", "partitions": 1})
    with ottla.Producer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="sales/1") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("payments", b"open").get(120)
        found = http.get("/api/transactions").value
        assert [each["id"] for each in found["transactions"] if each["is_open"]] == ["sales/1"]
        (held,) = found["holders"]
        assert (held["topic"], held["first_offset"], held["held_records"]) == ("payments", 0, 1)
        assert (held["transactional_id"], found["leads_all"]) == ("sales/1", True)
        one = http.get("/api/transactions/sales/1").value
        assert (one["state"], one["partitions"]) == ("Ongoing", ["payments-0"])
        assert http.get("/api/topics/payments/records", isolation="committed").value["records"] == []
        assert len(http.get("/api/topics/payments/records").value["records"]) == 1
        assert http.ask("DELETE", "/api/transactions/sales/1").status == 200
        with pytest.raises(OttlaError):
            producer.commit_transaction()
        assert http.get("/api/transactions").value["holders"] == []
        inside = http.get("/api/topics/payments/partitions/0/inside").value
        assert [(each["first_offset"], each["last_offset"]) for each in inside["aborted"]] == [(0, 1)]
        assert http.get("/api/topics/payments/records", isolation="committed").value["records"] == []
    assert http.get("/api/transactions/nobody").status == 404


# -- clients ----------------------------------------------------------------------------------------------------------


def test_clients_that_are_asked_show_their_accumulators(kafka, http, monkeypatch):
    monkeypatch.setattr(push, "FIRST_ASK_MS", 1.0)
    assert http.get("/api/clients").value["is_watching"] is False
    assert http.post("/api/clients/watch", {"watch": "yes"}).status == 400
    assert http.post("/api/clients/watch", {"watch": True}).status == 200
    with ottla.Producer(bootstrap_servers=kafka.bootstrap_servers, client_id="writer") as producer:
        producer.send("orders", b"x").get(HANG_S)

        def pushed():
            clients = http.get("/api/clients").value["clients"]
            return [each["numbers"] for each in clients if each["client_id"] == "writer" and each["numbers"]]

        wait_until(pushed)
        (numbers,) = pushed()
        assert numbers["producer.buffer.total.bytes"] >= numbers["producer.buffer.available.bytes"] > 0
        assert {"producer.incomplete.batches", "producer.requests.in.flight", "producer.batch.size.avg"} <= set(numbers)
        found = http.get("/api/clients").value
        assert found["is_watching"] is True
        assert found["connections"] == sum(each["connections"] for each in found["software"]) > 0
    assert http.post("/api/clients/watch", {"watch": False}).status == 200
    assert http.get("/api/clients").value["is_watching"] is False


# -- settings and access ----------------------------------------------------------------------------------------------


def test_settings_have_documentation_and_are_changed(http):
    def retention():
        rows = http.get("/api/settings/topic/orders").value["settings"]
        return next(each for each in rows if each["name"] == "retention.ms")

    assert retention()["doc"]
    assert retention()["is_default"]
    path = "/api/settings/topic/orders"
    assert http.post(path, {"setting": "retention.ms", "value": "5000", "dry_run": True}).status == 200
    assert retention()["is_default"]
    assert http.post(path, {"setting": "retention.ms", "value": "86400000"}).status == 200
    assert (retention()["value"], retention()["source"]) == ("86400000", "topic")
    assert http.post(path, {"setting": "retention.ms", "value": None}).status == 200
    assert retention()["is_default"]
    assert http.post(path, {"setting": "retention.ms", "value": "soon"}).status == 400
    assert http.get("/api/settings/nothing/x").status == 404
    broker = http.get("/api/settings/broker/0").value["settings"]
    assert all(each["value"] is None for each in broker if each["is_sensitive"])


def test_users_quotas_and_what_is_off(http):
    assert http.post("/api/users", {"name": "alice", "password": "a good one"}).status == 201
    limit = {"entity": {"user": "alice"}, "key": "producer_byte_rate", "limit": 5}
    assert http.post("/api/quotas", limit).status == 200
    found = http.get("/api/access").value
    assert [each["name"] for each in found["users"]] == ["alice"]
    assert found["quotas"] == [{"entity": {"user": "alice"}, "limits": {"producer_byte_rate": 5.0}}]
    assert found["has_rules"] is False
    assert "rules_error" in found
    assert "a good one" not in json.dumps(found)
    http.post("/api/quotas", {**limit, "limit": None})
    assert http.ask("DELETE", "/api/users/alice").status == 200
    assert http.get("/api/access").value["users"] == http.get("/api/access").value["quotas"] == []
