"""The schema registry of a cluster: every broker answers, and it moves with the leader of _schemas.

1. Whatever broker is asked, the leader of _schemas decides, and everybody reads what was registered anywhere.
2. When the leader is gone, the next one knows everything that was answered, and goes on with the ids.
3. What is refused has the same code through another broker.
4. kill -9 of the process that leads _schemas, again and again (`long`): everything that was answered is there, under
   its id, at every broker, and no id was used twice.
"""

import http.client
import itertools
import json
import threading
import urllib.error

import pytest

pytest.importorskip("starlette", reason="the registry needs ottla[registry]")
pytest.importorskip("fastavro")
from tests.cluster.several_brokers import SeveralBrokers
from tests.patience import HANG_S, wait_until
from tests.schema_registry import LISTENER, ask, url_of

import ottla

KILLS = 5  # a process that ends six times within a minute is given up


def register(url, subject, name):
    schema = json.dumps({"type": "record", "name": name, "fields": []})
    return ask(url + f"/subjects/{subject}/versions", {"schema": schema})["id"]


def url_at(cluster, broker_id):
    return url_of(cluster.server(broker_id).http_parts)


def test_the_registry_moves_with_the_leader_of_its_topic(make_cluster):
    with make_cluster(3, LISTENER) as cluster:
        known = {}
        for broker_id in cluster.running:
            known[f"s{broker_id}"] = register(url_at(cluster, broker_id), f"s{broker_id}", f"R{broker_id}")
        assert sorted(known.values()) == [1, 2, 3]
        leader = cluster.leader_of("_schemas", 0)
        cluster.wait_for_copies("_schemas", 1)
        other = next(each for each in cluster.running if each != leader)
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(url_at(cluster, other) + "/subjects/nobody/versions")
        assert json.loads(refused.value.read())["error_code"] == 40401
        cluster.crash(leader)
        urls = [url_at(cluster, broker_id) for broker_id in cluster.running]
        assert register(urls[0], "later", "Later") == 4
        assert register(urls[1], "last", "Last") == 5
        for url in urls:
            assert ask(url + "/subjects") == sorted([*known, "last", "later"])
            assert {name: ask(url + f"/subjects/{name}/versions/1")["id"] for name in known} == known
        cluster.start_broker(leader)
        assert ask(url_at(cluster, leader) + "/schemas/ids/5/subjects") == ["last"]


# -- processes that are killed -----------------------------------------------------------------------------------------


class Writer(threading.Thread):
    """Registers one schema after the other, at one broker after the other; notes what was answered."""

    def __init__(self, urls):
        super().__init__()
        self.urls = itertools.cycle(urls)
        self.answered = {}
        self.failed = None
        self.is_over = threading.Event()

    def run(self):
        for number in itertools.count():
            if self.is_over.is_set():
                return
            try:
                self.answered[f"s{number}"] = register(next(self.urls), f"s{number}", f"R{number}")
            except urllib.error.HTTPError as error:
                if error.code < 500:  # nobody leads for a moment: that may be said, a refusal may not
                    self.failed = error.read()
                    return
            except (OSError, http.client.HTTPException):
                pass  # the broker that was asked is the one that was killed

    def wait_for_more(self):
        known = len(self.answered)
        wait_until(lambda: self.failed or len(self.answered) >= known + 20, "schemas are registered")
        assert self.failed is None


def leader_of_schemas(brokers):
    """As soon as there is one."""
    with ottla.Admin(bootstrap_servers=brokers.bootstrap_servers) as admin:

        def is_known():
            (partition,) = admin.describe_topics(["_schemas"], timeout=HANG_S)["_schemas"].partitions
            found.append(partition.leader)
            return found[-1] is not None

        found = []
        wait_until(is_known, "somebody leads _schemas")
        return found[-1]


@pytest.mark.long
def test_what_was_registered_survives_kill_nine_of_its_leader(tmp_path):
    with SeveralBrokers(tmp_path, 3, settings=LISTENER) as brokers:
        urls = [each.http["schema registry"] for each in brokers.status.brokers]
        writer = Writer(urls)
        writer.start()
        try:
            killed = set()
            for _ in range(KILLS):
                writer.wait_for_more()
                killed.add(leader := leader_of_schemas(brokers))
                brokers.signal_and_wait(brokers.pid_of(leader))
            writer.wait_for_more()
        finally:
            writer.is_over.set()
            writer.join(HANG_S)
        assert writer.failed is None
        assert len(killed) > 1, "the leader never moved"
        assert len(set(writer.answered.values())) == len(writer.answered)
        for url in urls:
            found = {each["subject"]: each["id"] for each in ask(url + "/schemas")}
            assert {name: found.get(name) for name in writer.answered} == writer.answered
