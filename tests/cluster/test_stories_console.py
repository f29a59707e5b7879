"""The console of one broker shows the whole cluster: records led and groups coordinated elsewhere, who is behind."""

from functools import partial

import pytest
from tests.patience import wait_until
from tests.unit.broker.http.http_client import HttpClient

import ottla
import ottla.broker.console.part
import ottla.broker.http.serving  # loaded here, and not by a broker's thread in the middle of a test
from ottla.testing.cluster import KafkaCluster


class At:
    """Where a broker of a cluster has its console."""

    def __init__(self, server):
        self.info = server.info


def is_written(console, body):
    return console.post("/api/topics/single/records", body).status == 201


@pytest.fixture(scope="module")
def cluster():
    with KafkaCluster(brokers=3, settings={"ottla.admin.listener": "127.0.0.1:0"}) as made:
        yield made


@pytest.fixture(scope="module")
def consoles(cluster):
    return [HttpClient(At(cluster.server(number))).begin() for number in range(3)]


def test_every_console_shows_and_writes_records_wherever_they_are(cluster, consoles):
    with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("single", 3, 1)])
    wait_until(lambda: all(each.get("/api/topics/single").status == 200 for each in consoles))
    for number, console in enumerate(consoles):
        for partition in range(3):
            body = {"value": f"{number}-{partition}", "partition": partition}
            wait_until(partial(is_written, console, body))
    for console in consoles:
        page = console.get("/api/topics/single/records", limit=50)
        wanted = {f"{number}-{partition}" for number in range(3) for partition in range(3)}
        assert {each["value"]["text"] for each in page.value["records"]} >= wanted, page
        found = console.get("/api/topics/single/records", filter='value == "2-1"', **{"from": "earliest"})
        assert {each["partition"] for each in found.value["records"]} == {1}


def test_every_console_knows_every_group_and_moves_it(cluster, consoles):
    with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("orders", 3, 2)])
    with ottla.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for partition in range(3):
            producer.send("orders", b"x", partition=partition).get(300)
    for name in ("one", "two", "three"):
        with ottla.Consumer(
            bootstrap_servers=cluster.bootstrap_servers, group_id=name, enable_auto_commit=False
        ) as consumer:
            names = [ottla.TopicPartition("orders", partition) for partition in range(3)]
            consumer.assign(names)
            consumer.commit(dict.fromkeys(names, 0))
    for console in consoles:
        groups = console.get("/api/groups").value
        assert {each["id"] for each in groups["groups"]} >= {"one", "two", "three"}
        assert groups["missing_brokers"] == []
        for name in ("one", "two", "three"):
            group = console.get(f"/api/groups/{name}").value
            assert (group["lag"], len(group["offsets"])) == (3, 3), group
    assert consoles[1].post("/api/groups/two/reset", {"to": "latest", "dry_run": False}).status == 200
    assert [each.get("/api/groups/two").value["lag"] for each in consoles] == [0, 0, 0]


def test_the_inside_shows_followers_and_says_where_copies_are(cluster, consoles):
    with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("copied", 1, 2)])
    with ottla.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("copied", b"x").get(300)
    topic = consoles[0].get("/api/topics/copied").value
    (partition,) = topic["partition_list"]
    leader = consoles[partition["leader"]]
    followers = leader.get("/api/topics/copied/partitions/0/inside").value["followers"]
    others = [each for each in partition["replicas"] if each != partition["leader"]]
    assert [each["broker_id"] for each in followers] == others
    (absent,) = {0, 1, 2} - set(partition["replicas"])
    answer = consoles[absent].get("/api/topics/copied/partitions/0/inside")
    assert (answer.status, str(partition["replicas"]) in answer.value["message"]) == (503, True)
    assert len(leader.get("/api/brokers").value["brokers"]) == 3


def test_every_console_knows_who_holds_back_readers(cluster, consoles):
    with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("held", 3, 1)])
    with ottla.Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="forgotten") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for partition in range(3):
            producer.send("held", b"open", partition=partition).get(300)
        for console in consoles:
            found = console.get("/api/transactions").value["holders"]
            shown = [(each["partition"], each["transactional_id"], each["held_records"]) for each in found]
            assert sorted(shown) == [(0, "forgotten", 1), (1, "forgotten", 1), (2, "forgotten", 1)]
        producer.abort_transaction()
