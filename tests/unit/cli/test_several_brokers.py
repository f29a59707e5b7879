"""`ottla broker start --brokers N` before a process is there: settings of each, data found, restarts, status."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.http.parts import PARTS
from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.alone import refuse_missing_replicas, replica_warnings
from ottla.cli.brokers.layout import BEFORE_THE_QUORUM, check_brokers, refuse_data_of_several, refuse_other_data
from ottla.cli.brokers.plan import check_racks, port_step, settings_of_each
from ottla.cli.brokers.quorum import QUORUM_FILE, Quorum, begin_cluster, new_quorum, refuse_own_roles
from ottla.cli.brokers.restarts import LIMIT, LONGEST_PAUSE_MS, WINDOW_MS, Restarts
from ottla.cli.brokers.shown import show_status
from ottla.cli.brokers.start import ready_lines, start_brokers, with_broker_login
from ottla.cli.brokers.status import GIVEN_UP, SERVING, ProcessStatus, Status, read_status
from ottla.cli.brokers.supervisor import HTTP_LISTENERS, with_ports
from ottla.cli.output import Failure
from ottla.cli.secure_start import Secured
from ottla.errors import InvalidSetting
from ottla.storage.directory.checkpoints import MetaProperties, read_meta_properties, write_meta_properties
from ottla.storage.directory.unknown_logs import OLD_STORE, OldStore
from ottla.storage.files import DiskFiles

QUORUM = Quorum((20_001, 20_002, 20_003), "secret")


def each_of(brokers: int = 3, *, quorum: Quorum | None = QUORUM, **written: Any) -> list[dict[str, str]]:
    names = {"log.dirs": "/data", **{name.replace("_", "."): value for name, value in written.items()}}
    return settings_of_each(BrokerSettings(names), brokers, host="machine", quorum=quorum)


def column(found: list[dict[str, str]], name: str) -> list[str | None]:
    return [each.get(name) for each in found]


# --- settings of each -------------------------------------------------------------------------------------------------


def test_ports_and_directories_and_ids_follow_the_first_ones() -> None:
    found = each_of(listeners="PLAINTEXT://127.0.0.1:9092", num_partitions="7")
    assert column(found, "listeners") == [
        f"PLAINTEXT://127.0.0.1:{9092 + slot},CONTROLLER://127.0.0.1:{20_001 + slot}" for slot in range(3)
    ]
    assert column(found, "log.dirs") == ["/data/broker.0", "/data/broker.1", "/data/broker.2"]
    assert column(found, "node.id") == ["0", "1", "2"]
    assert column(found, "ottla.admin.listener") == ["127.0.0.1:9644", "127.0.0.1:9645", "127.0.0.1:9646"]
    assert set(column(found, "num.partitions")) == {"7"}
    assert set(column(found, "process.roles")) == {"broker,controller"}


def test_the_first_three_vote_and_whoever_is_more_does_not() -> None:
    found = each_of(5, node_id=5)
    assert column(found, "process.roles") == ["broker,controller"] * 3 + ["broker"] * 2
    assert {each["controller.quorum.voters"] for each in found} == {
        "5@127.0.0.1:20001,6@127.0.0.1:20002,7@127.0.0.1:20003"
    }
    alone = each_of(2, quorum=Quorum((20_001,), "secret"))
    assert column(alone, "process.roles") == ["broker,controller", "broker"]


def test_controllers_listen_here_only_and_ask_for_a_password() -> None:
    settings = BrokerSettings(each_of()[0])
    (listener,) = settings.controller_listeners
    assert (listener.is_loopback, listener.protocol) == (True, "SASL_PLAINTEXT")
    assert settings.for_listener("CONTROLLER").sasl_enabled_mechanisms == ("PLAIN",)


def test_controllers_may_everything_where_there_are_rules() -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    (found, *_) = each_of(authorizer_class_name=authorizer, super_users="User:admin")
    assert found["super.users"] == "User:admin;User:controllers"
    assert "super.users" not in each_of()[0]


def test_who_votes_is_chosen_once(tmp_path: Path) -> None:
    ports = [1, 2, 3]
    assert len(new_quorum(tmp_path, 2, ports).ports) == 1
    assert len(new_quorum(tmp_path, 5, ports).ports) == 1, "others would not know what the first one knows"
    (tmp_path / QUORUM_FILE).unlink()
    assert new_quorum(tmp_path, 3, ports).ports == (1, 2, 3)
    (tmp_path / QUORUM_FILE).write_text('{"voters": 2}')
    with pytest.raises(Failure, match="says that 2 brokers vote"):
        new_quorum(tmp_path, 3, ports)


def test_roles_are_not_given_beside_brokers() -> None:
    refuse_own_roles(["node.id", "log.dirs"])
    for name in ("process.roles", "controller.quorum.voters", "controller.quorum.bootstrap.servers"):
        with pytest.raises(Failure, match=f"{name} and --brokers cannot be used together"):
            refuse_own_roles(["node.id", name])


def test_directories_are_formatted_once_for_one_cluster(tmp_path: Path) -> None:
    settings = BrokerSettings({"log.dirs": f"{tmp_path}/a,{tmp_path}/b"})
    for _ in range(2):
        begin_cluster(settings, [5, 6])
        found = {path: read_meta_properties(DiskFiles(), path) for path in tmp_path.glob("*/broker.*")}
        assert len(found) == 4
        assert {(each.version, each.node_id) for each in found.values() if each is not None} == {(1, 5), (1, 6)}
        assert len({each.cluster_id for each in found.values() if each is not None}) == 1
        assert len({each.directory_id for each in found.values() if each is not None}) == 4
    other = MetaProperties(1, "another", 6, b"d" * 16)
    write_meta_properties(DiskFiles(), tmp_path / "a" / "broker.1", other)
    with pytest.raises(Failure, match="are of 2 clusters"):
        begin_cluster(settings, [5, 6])


def test_data_of_builds_before_the_quorum_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / BEFORE_THE_QUORUM / OLD_STORE).mkdir(parents=True)
    before = list(tmp_path.rglob("*"))
    with pytest.raises(OldStore, match=rf"{BEFORE_THE_QUORUM}/{OLD_STORE} .*Bring its topics over: start that build"):
        start_brokers(BrokerSettings({"log.dirs": str(tmp_path)}), 3, None)
    assert list(tmp_path.rglob("*")) == before


def test_the_directory_of_a_broker_on_zookeeper_is_refused_and_left_alone(tmp_path: Path) -> None:
    files, directory = DiskFiles(), tmp_path / "broker.1"
    directory.mkdir()
    write_meta_properties(files, directory, MetaProperties(0, "a-cluster", 1))
    with pytest.raises(Failure, match=r"broker\.1 is the directory of a broker whose cluster is kept in ZooKeeper"):
        begin_cluster(BrokerSettings({"log.dirs": str(tmp_path)}), [0, 1])
    assert read_meta_properties(files, directory) == MetaProperties(0, "a-cluster", 1)
    assert list(tmp_path.iterdir()) == [directory]


def test_every_one_of_them_can_be_started() -> None:
    for each in each_of(4, listeners="PLAINTEXT://127.0.0.1:9092", log_dirs="/a,/b"):
        settings = BrokerSettings(each)
        assert not settings.is_alone
        assert [path.parent for path in settings.data_directories] == [Path("/a"), Path("/b")]


def test_any_free_port_stays_any_free_port() -> None:
    found = each_of(listeners="PLAINTEXT://127.0.0.1:0", ottla_admin_listener="127.0.0.1:0")
    assert {each.partition(",")[0] for each in column(found, "listeners") if each} == {"PLAINTEXT://127.0.0.1:0"}
    assert set(column(found, "ottla.admin.listener")) == {"127.0.0.1:0"}
    assert set(column(each_of(ottla_admin_listener=""), "ottla.admin.listener")) == {""}


def test_advertised_ports_follow_too() -> None:
    found = each_of(2, listeners="PLAINTEXT://127.0.0.1:9092", advertised_listeners="PLAINTEXT://[::1]:19092")
    assert column(found, "advertised.listeners") == ["PLAINTEXT://[::1]:19092", "PLAINTEXT://[::1]:19093"]
    assert column(each_of(2), "advertised.listeners") == [None, None]


@pytest.mark.parametrize(
    ("ports", "brokers", "step"),
    [
        ([9092], 3, 1),
        ([9092, 9093], 3, 2),
        ([9092, 9094], 2, 1),
        ([9092, 9094], 3, 3),
        ([9092, 19092], 9, 1),
        ([0], 5, 1),
    ],
)
def test_the_step_between_ports_is_the_smallest_with_which_none_meets_another(
    ports: list[int], brokers: int, step: int
) -> None:
    assert port_step(ports, brokers) == step
    used = [port + slot * step for port in ports if port for slot in range(brokers)]
    assert len(used) == len(set(used))


def test_a_port_above_the_highest_is_refused() -> None:
    with pytest.raises(Failure, match="above 65535"):
        each_of(2, listeners="PLAINTEXT://127.0.0.1:65535")


def test_all_are_in_the_rack_of_the_machine_unless_one_is_named() -> None:
    assert set(column(each_of(), "broker.rack")) == {"machine"}
    assert set(column(each_of(broker_rack="r7"), "broker.rack")) == {"r7"}


def test_each_can_have_a_rack_of_its_own() -> None:
    settings = BrokerSettings({"broker.rack": "elsewhere"})
    found = settings_of_each(settings, 3, host="machine", quorum=QUORUM, racks=["a", "b", "a"])
    assert column(found, "broker.rack") == ["a", "b", "a"]


@pytest.mark.parametrize("racks", [["a", "b"], ["a", "b", "c", "d"], ["a", "", "c"]])
def test_racks_are_as_many_as_brokers(racks: list[str]) -> None:
    with pytest.raises(Failure, match="--racks a,b,c"):
        check_racks(racks, 3)
    check_racks(["a", "b", "c"], 3)


def test_ids_count_from_the_one_that_is_set() -> None:
    assert column(each_of(broker_id=5), "node.id") == ["5", "6", "7"]
    assert column(each_of(node_id=5), "broker.id") == [None, None, None]


def test_with_zookeeper_it_gives_ids_and_the_number_of_copies_is_not_ours() -> None:
    found = each_of(quorum=None, zookeeper_connect="z:2181")
    assert column(found, "broker.id") == [None, None, None]
    assert column(found, "process.roles") == [None, None, None]
    assert column(found, "offsets.topic.replication.factor") == [None, None, None]
    assert column(each_of(quorum=None, zookeeper_connect="z:2181", broker_id=3), "broker.id") == ["3", "4", "5"]


@pytest.mark.parametrize(("brokers", "copies", "in_sync"), [(1, "1", "1"), (2, "2", "2"), (3, "3", "2"), (8, "3", "2")])
def test_internal_topics_have_as_many_copies_as_there_are_brokers(brokers: int, copies: str, in_sync: str) -> None:
    (found, *_) = each_of(brokers)
    assert found["offsets.topic.replication.factor"] == copies
    assert found["transaction.state.log.min.isr"] == in_sync
    (chosen, *_) = each_of(brokers, offsets_topic_replication_factor="1")
    assert chosen["offsets.topic.replication.factor"] == "1"


def test_more_copies_than_brokers_are_refused_or_warned_of() -> None:
    settings = BrokerSettings({"offsets.topic.replication.factor": 3, "default.replication.factor": 3})
    refuse_missing_replicas(settings, 3)
    assert replica_warnings(settings, 3) == []
    with pytest.raises(InvalidSetting, match="with 2 brokers: no consumer group could work; set it to 2 or less"):
        refuse_missing_replicas(settings, 2)
    (warning,) = replica_warnings(settings, 2)
    assert "default.replication.factor=3 with 2 brokers" in warning


def test_a_port_that_was_free_is_kept() -> None:
    settings = {
        "listeners": "A://127.0.0.1:0,B://[::1]:9093",
        "ottla.admin.listener": "127.0.0.1:0",
        "ottla.schema.registry.listener": "[::1]:0",
    }
    http = {"metrics and health": "http://127.0.0.1:40002", "schema registry": "http://[::1]:40003"}
    kept = with_ports(settings, {"A": 40001, "B": 9093}, http)
    assert kept == {
        "listeners": "A://127.0.0.1:40001,B://[::1]:9093",
        "ottla.admin.listener": "127.0.0.1:40002",
        "ottla.schema.registry.listener": "[::1]:40003",
    }
    other = {"metrics and health": "http://127.0.0.1:3", "schema registry": "http://[::1]:4"}
    assert with_ports(kept, {"A": 1, "B": 2}, other) == kept


def test_what_is_served_over_http_is_called_so_everywhere() -> None:
    assert HTTP_LISTENERS["ottla.schema.registry.listener"] in [row.name for row in PARTS]


def test_secured_brokers_log_in_at_each_other(tmp_path: Path) -> None:
    settings = BrokerSettings(
        {
            "listeners": "SASL_SSL://127.0.0.1:9092",
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "ssl.keystore.location": "x.pem",
            "ssl.keystore.type": "PEM",
        }
    )
    changed = with_broker_login(settings, Secured(tmp_path, 'se"cret', is_new=True))
    (found, *_) = settings_of_each(changed, 1, host="h", quorum=QUORUM)
    login = found["listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"]
    assert 'username="admin"' in login
    assert r"se\"cret" in login
    assert with_broker_login(changed, Secured(tmp_path, "other", is_new=True)) is changed


# --- data that is found -----------------------------------------------------------------------------------------------


def test_the_number_of_brokers_has_bounds() -> None:
    for number in (0, -1, 65):
        with pytest.raises(Failure, match="1 to 64 brokers"):
            check_brokers(number)
    check_brokers(64)


def test_data_of_several_is_not_opened_by_one(tmp_path: Path) -> None:
    refuse_data_of_several([tmp_path, tmp_path / "absent"])
    (tmp_path / "broker.x").mkdir()
    (tmp_path / "broker-0").mkdir()  # partition 0 of a topic
    refuse_data_of_several([tmp_path])
    (tmp_path / "broker.1").mkdir()
    with pytest.raises(Failure, match="has the data of 2 brokers; start it with --brokers 2"):
        refuse_data_of_several([tmp_path])


def test_data_of_one_is_not_passed_over_by_several(tmp_path: Path) -> None:
    refuse_other_data([tmp_path], 3)
    (tmp_path / "meta.properties").touch()
    with pytest.raises(Failure, match="data of a single broker"):
        refuse_other_data([tmp_path], 3)


def test_no_broker_that_has_data_is_left_out(tmp_path: Path) -> None:
    for slot in range(3):
        (tmp_path / f"broker.{slot}").mkdir()
    refuse_other_data([tmp_path], 3)
    refuse_other_data([tmp_path], 5)
    with pytest.raises(Failure, match=r"Start it with --brokers 3; or .* remove broker\.2"):
        refuse_other_data([tmp_path], 2)


# --- restarts ---------------------------------------------------------------------------------------------------------


def test_the_first_restart_is_at_once_and_later_ones_wait_longer() -> None:
    restarts = Restarts()
    pauses = [restarts.pause_ms(1000.0 * number) for number in range(LIMIT)]
    assert pauses[:4] == [0.0, 250.0, 500.0, 1000.0]
    assert pauses[-1] is None
    assert restarts.count == LIMIT - 1
    assert all(pause is None or pause <= LONGEST_PAUSE_MS for pause in pauses)


def test_who_served_long_begins_anew() -> None:
    restarts = Restarts()
    for number in range(3 * LIMIT):
        assert restarts.pause_ms(number * (WINDOW_MS + 1)) == 0.0


# --- status -----------------------------------------------------------------------------------------------------------


HTTP = {
    "console": "http://127.0.0.1:9644",
    "schema registry": "http://127.0.0.1:8081",
    "metrics and health": "http://127.0.0.1:9644",
}


def a_status(supervisor: int, state: str = SERVING) -> Status:
    brokers = [ProcessStatus("0", state, 11, 0, "127.0.0.1:9092", HTTP["console"], 2, HTTP)]
    return Status(supervisor, "cluster", "127.0.0.1:9092", brokers)


def test_a_status_reads_back_as_long_as_its_supervisor_lives(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    a_status(os.getpid()).write(tmp_path)
    assert read_status(tmp_path) == a_status(os.getpid())
    a_status(2**22 + 1).write(tmp_path)  # above the highest process id
    assert read_status(tmp_path) is None


def test_the_status_shows_all_and_fails_when_one_does_not_serve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_status(os.getpid()).write(tmp_path)
    assert show_status(tmp_path, "text") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == ["0", "serving", "11", "127.0.0.1:9092", "http://127.0.0.1:9644", "2"]
    assert len(lines) == 2
    a_status(os.getpid(), GIVEN_UP).write(tmp_path)
    assert show_status(tmp_path, "json") == 1
    with pytest.raises(Failure, match="no brokers"):
        show_status(tmp_path / "elsewhere", "text")


def test_the_lines_that_are_printed_name_all_brokers() -> None:
    *each, last = ready_lines(a_status(1), Path("/data"))
    assert each == [
        "ottla: broker 0 is ready at 127.0.0.1:9092 (process 11, console, metrics and health: http://127.0.0.1:9644, "
        "schema registry: http://127.0.0.1:8081)"
    ]
    assert last == "ottla: 1 broker is ready at 127.0.0.1:9092 (data: /data, cluster id cluster)"
