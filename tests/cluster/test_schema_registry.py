"""The schema registry of a cluster: every broker answers, and it moves with the leader of _schemas.

1. Whatever broker is asked, the leader of _schemas decides, and everybody reads what was registered anywhere.
2. When the leader is gone, the next one knows everything that was answered, and goes on with the ids.
3. What is refused has the same code through another broker.
"""

import json
import urllib.error
import urllib.request

import pytest

pytest.importorskip("starlette", reason="the registry needs ottla[registry]")
pytest.importorskip("fastavro")
from tests.patience import HANG_S

from ottla.testing.cluster import KafkaCluster


def ask(url, path, body=None, method=None):
    content = None if body is None else json.dumps(body).encode()
    kind = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    request = urllib.request.Request(url + path, content, kind, method=method)
    with urllib.request.urlopen(request, timeout=HANG_S) as answer:
        return json.loads(answer.read())


def register(url, subject, name):
    schema = json.dumps({"type": "record", "name": name, "fields": []})
    return ask(url, f"/subjects/{subject}/versions", {"schema": schema})["id"]


def url_of(cluster, broker_id):
    ((_, (host, port)),) = cluster.server(broker_id).http_parts
    return f"http://{host}:{port}"


def test_the_registry_moves_with_the_leader_of_its_topic():
    with KafkaCluster(3, {"ottla.schema.registry.listener": "127.0.0.1:0"}) as cluster:
        known = {}
        for broker_id in cluster.running:
            known[f"s{broker_id}"] = register(url_of(cluster, broker_id), f"s{broker_id}", f"R{broker_id}")
        assert sorted(known.values()) == [1, 2, 3]
        leader = cluster.leader_of("_schemas", 0)
        cluster.wait_for_copies("_schemas", 1)
        other = next(each for each in cluster.running if each != leader)
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(url_of(cluster, other), "/subjects/nobody/versions")
        assert json.loads(refused.value.read())["error_code"] == 40401
        cluster.crash(leader)
        urls = [url_of(cluster, broker_id) for broker_id in cluster.running]
        assert register(urls[0], "later", "Later") == 4
        assert register(urls[1], "last", "Last") == 5
        for url in urls:
            assert ask(url, "/subjects") == sorted([*known, "last", "later"])
            assert {name: ask(url, f"/subjects/{name}/versions/1")["id"] for name in known} == known
        cluster.start_broker(leader)
        assert ask(url_of(cluster, leader), "/schemas/ids/5/subjects") == ["last"]
