"""The quorum of the metadata log is looked at while controllers are there, while one is gone, and while nobody leads.

By the console of a broker, of the controller that leads and of one that does not, and by `ottla doctor`.
"""

import json

import pytest
from tests.cluster.test_stories_rights import SETTINGS as LOGINS
from tests.patience import wait_until
from tests.unit.broker.http.http_client import HttpClient

import ottla.broker.console.part  # loaded here, and not by a node in the middle of a test
import ottla.broker.http.serving  # noqa: F401
from ottla.broker.security.first_users import FirstUser
from ottla.cli.lab_cluster import free_ports
from ottla.cli.main import main
from ottla.testing.broker import KafkaBroker
from ottla.testing.cluster import KafkaCluster

SETTINGS = {"ottla.admin.listener": "127.0.0.1:0", "controller.quorum.fetch.timeout.ms": 4_000}
"""Nobody is elected because a busy machine stood still for a second; who was killed is missed four seconds later."""


class At:
    """Where a node has its console."""

    def __init__(self, server):
        self.info = server.info


def console(cluster, number):
    return HttpClient(At(cluster.server(number))).begin()


def page_of(cluster, number):
    answer = console(cluster, number).get("/api/metadata-log", count=1)
    assert answer.status == 200, answer
    return answer.value


def quorum_findings(cluster, number):
    answer = console(cluster, number).get("/api/findings")
    assert answer.status == 200, answer
    return [(each["severity"], each["what"]) for each in answer.value["findings"] if each["check"] == "quorum"]


def doctor(capsys, servers):
    """What `ottla doctor` says, by step, and its exit code."""
    code = main(["doctor", "-b", servers, "--timeout", "2", "--format", "json"])
    return code, {each["step"]: each for each in json.loads(capsys.readouterr().out)}


def results(said):
    """How it is with the quorum. A machine that stands still for seconds is seen as silent voters."""
    return {each["result"] for step, each in said.items() if step.startswith(("quorum", "voter", "clock"))}


def test_a_controller_is_killed_and_then_another(capsys):
    with KafkaCluster(brokers=1, controllers=3, settings=SETTINGS) as cluster:
        voters = set(cluster.running_controllers)
        cluster.wait_until(lambda: cluster.controller() != -1)
        first = cluster.controller()
        for number in (0, *voters):
            found = page_of(cluster, number)
            assert (found["node"], found["leader"], found["silence"]) == (number, first, "")
            assert {each["id"] for each in found["voters"]} == voters
            assert [each["id"] for each in found["voters"] if each["is_leader"]] == [first]
            assert all(each["endpoints"][0].startswith("CONTROLLER://127.0.0.1:") for each in found["voters"])
            assert all(each["directory"] and each["lag"] is not None for each in found["voters"])
            assert [(each["id"], each["is_broker"]) for each in found["observers"]] == [(0, True)]
            assert (found["elections"][0]["leader"], found["elections"][0]["epoch"]) == (first, found["epoch"])
            wait_until(lambda number=number: quorum_findings(cluster, number) == [])
        wait_until(lambda: results(doctor(capsys, cluster.bootstrap_servers)[1]) == {"ok"})
        code, said = doctor(capsys, cluster.bootstrap_servers)
        assert code == 0
        assert {step for step in said if step.startswith("voter")} == {f"voter {each}" for each in voters}

        cluster.crash(first)
        cluster.wait_until(lambda: cluster.controller() not in (-1, first))
        second = cluster.controller()
        wait_until(lambda: page_of(cluster, 0)["elections"][0]["leader"] == second)
        found = page_of(cluster, 0)
        newest, before = found["elections"][:2]
        assert (before["leader"], newest["led_ms"], before["led_ms"] > 0) == (first, None, True)
        assert set(newest["granted"]) == voters - {first}
        assert {each["id"] for each in found["voters"] if each["voted_for"] == second} == voters - {first}
        wait_until(lambda: len(quorum_findings(cluster, 0)) == 1)
        ((severity, what),) = quorum_findings(cluster, second)
        assert (severity, what.startswith(f"voter {first} (127.0.0.1:")) == ("warning", True)
        wait_until(
            lambda: doctor(capsys, cluster.bootstrap_servers)[1][f"voter {second}"]["what"].startswith("it leads")
        )
        code, said = doctor(capsys, cluster.bootstrap_servers)
        assert (code, said["quorum"]["result"], said[f"voter {first}"]["result"]) == (0, "ok", "warning"), said
        assert "nobody listens there" in said[f"voter {first}"]["what"]
        assert "when one more is gone nothing can be decided" in said[f"voter {first}"]["what"]
        assert "ottla cluster replace" in said[f"voter {first}"]["remedy"]
        assert said[f"voter {second}"]["result"] == "ok"

        cluster.crash(second)
        (left,) = cluster.running_controllers
        wait_until(lambda: cluster.controller() == -1)
        for number in (0, left):
            wait_until(lambda number=number: page_of(cluster, number)["silence"] != "")
            found = page_of(cluster, number)
            assert {each["id"] for each in found["voters"]} == voters, "as its own log names them"
            assert found["elections"][0]["leader"] == second
            ((severity, what),) = quorum_findings(cluster, number)
            assert (severity, "nobody leads" in what) == ("bad", True)
        code, said = doctor(capsys, cluster.bootstrap_servers)
        assert (code, said["quorum"]["result"]) == (1, "failed"), said
        assert "whose leaders live are written and read" in said["quorum"]["what"]
        assert "more than half of the voters" in said["quorum"]["remedy"]


def test_only_who_may_describe_the_cluster_sees_its_quorum_whichever_node_is_asked():
    """A controller that does not lead asks as itself, and it may everything."""
    locked = {**LOGINS, **SETTINGS, "ottla.admin.login": True, "super.users": "User:broker;User:admin"}
    locked["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    users = [FirstUser(name, "right") for name in ("admin", "bob")]
    with KafkaCluster(brokers=1, controllers=3, settings=locked, users=users) as cluster:
        for number in (0, *cluster.running_controllers):
            admin, bob = (HttpClient(At(cluster.server(number))) for _ in range(2))
            assert (admin.log_in("admin", "right").status, bob.log_in("bob", "right").status) == (200, 200)
            wait_until(lambda admin=admin: admin.get("/api/metadata-log").value["silence"] == "")
            assert len(admin.get("/api/metadata-log").value["voters"]) == 3
            assert [bob.get(path).status for path in ("/api/metadata-log", "/api/findings")] == [403, 403]


@pytest.fixture
def combined(tmp_path):
    from ottla.storage.directory.checkpoints import MetaProperties, write_meta_properties
    from ottla.storage.files import DiskFiles

    (port,) = free_ports(1)
    write_meta_properties(DiskFiles(), tmp_path, MetaProperties(1, "5L6g3nShT-eMCtK--X86sw", 0, b"d" * 16))
    settings = {
        "process.roles": "broker,controller",
        "node.id": 0,
        "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.quorum.voters": f"0@127.0.0.1:{port}",
        "offsets.topic.replication.factor": 1,
        "ottla.admin.listener": "127.0.0.1:0",
    }
    with KafkaBroker(settings, directory=tmp_path) as broker:
        yield broker


def test_a_node_with_both_roles_asks_itself(combined, capsys):
    found = HttpClient(combined).begin().get("/api/metadata-log").value
    assert (found["node"], found["leader"], found["silence"], found["observers"]) == (0, 0, "", [])
    assert [(each["id"], each["is_leader"], each["voted_for"]) for each in found["voters"]] == [(0, True, 0)]
    code, said = doctor(capsys, combined.bootstrap_servers)
    assert (code, said["quorum"]["what"]) == (0, f"node 0 alone votes and leads, in epoch {found['epoch']}")
