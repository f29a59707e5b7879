"""The HTTP door of a running broker: what is open, what is loaded when, and every route against every check."""

import asyncio
import inspect
import re
import sys

import pytest
from tests.patience import HANG_S
from tests.unit.broker.http.http_client import HttpClient

import ottla.broker.console.part
import ottla.broker.http.serving  # loaded here, and not by a broker's thread in the middle of a test
from ottla.broker.http.door import PACKAGES, LazyListener, Serving, parts_that_are_on
from ottla.broker.http.login_routes import login_part
from ottla.broker.http.parts import KNOWN
from ottla.broker.http.watch_routes import watch_part
from ottla.errors import InvalidSetting
from ottla.testing.broker import KafkaBroker

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LOCKED = {
    "ottla.admin.listener": "127.0.0.1:0",
    "ottla.admin.login": "true",
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:admin",
    "connection.failed.authentication.delay.ms": 0,
}
PARAMETERS = {
    "topic": "orders",
    "partition": "0",
    "offset": "0",
    "group": "billing",
    "id": "sales/1",
    "kind": "topic",
    "name": "orders",
    "user": "eve",
    "version": "0123456789abcdef",
    "file": "app.js",
    "subject": "orders-value",
}


def all_routes(server):
    console = ottla.broker.console.part.make_part(server.broker)
    return (*console.routes, *watch_part(None, has_login=True).routes, *login_part(None, None, "", None).routes)


def path_of(route):
    return re.sub(r"\{(\w+)(?::path)?\}", lambda match: PARAMETERS[match[1]], route.path)


@pytest.fixture(scope="module")
def locked():
    with KafkaBroker(LOCKED, users={"admin": "right", "eve": "hers"}) as broker:
        admin = HttpClient(broker)
        assert admin.log_in("admin", "right").status == 200
        assert admin.post("/api/topics", {"name": "orders", "partitions": 1}).status == 201
        assert admin.post("/api/topics/orders/records", {"key": "k", "value": "v"}).status == 201
        broker.admin = admin
        broker.routes = broker.call(all_routes)
        yield broker


@pytest.fixture(scope="module")
def eve(locked):
    client = HttpClient(locked)
    assert client.log_in("eve", "hers").status == 200
    return client


def test_there_are_routes_to_check(locked):
    assert len(locked.routes) > 50
    assert len({route.name for route in locked.routes}) == len(locked.routes)


def test_every_route_wants_a_login_unless_it_is_public(locked):
    stranger = HttpClient(locked)
    for route in locked.routes:
        answer = stranger.ask(route.method, path_of(route))
        if route.right.is_public:
            assert answer.status in (200, 400), (route.name, answer)
        else:
            assert (answer.status, answer.value["error"]) == (401, "LOGIN_NEEDED"), (route.name, answer)


def test_every_route_is_for_names_of_this_machine(locked):
    for route in locked.routes:
        for host in ("evil.example", "evil.example:80"):
            answer = locked.admin.ask(route.method, path_of(route), Host=host)
            assert answer.status == 403, (route.name, answer)
    assert locked.admin.ask("GET", "/no/such/path", Host="evil.example").status == 403


def test_every_route_is_checked_against_the_rights_of_who_asks(locked, eve):
    for route in locked.routes:
        if route.right.need is not None:
            answer = eve.ask(route.method, path_of(route))
            assert answer.status == 403, (route.name, answer)
            assert answer.value["error"].endswith("AUTHORIZATION_FAILED")


@pytest.mark.parametrize("field", ["name", "principal", "host"])
@pytest.mark.parametrize("path", ["/api/rules", "/api/rules/remove"])
def test_a_rule_with_a_text_that_no_client_could_send_is_refused(locked, path, field):
    rule = {"resource": "TOPIC", "name": "t", "principal": "User:x", "operation": "ALL", field: "x" * 32_768}
    answer = locked.admin.post(path, rule)
    assert (answer.status, answer.value["message"]) == (400, f"{field} has at most 32767 bytes")


CHANGES = {
    "/api/topics": {"name": "stolen", "partitions": 1},
    "/api/settings/topic/orders": {"setting": "retention.ms", "value": "1"},
    "/api/users": {"name": "eve", "password": "x"},
    "/api/rules": {"resource": "TOPIC", "name": "*", "principal": "User:eve", "operation": "ALL"},
    "/api/rules/remove": {"resource": "TOPIC", "name": "*", "principal": "User:eve", "operation": "ALL"},
    "/api/clients/watch": {"watch": True},
    "/api/quotas": {"entity": {"user": "admin"}, "key": "producer_byte_rate", "limit": 1},
}


def test_a_change_that_the_wire_would_refuse_is_refused(locked, eve):
    for route in locked.routes:
        if route.right == KNOWN and route.changes:
            answer = eve.ask(route.method, path_of(route), CHANGES.get(path_of(route)))
            assert answer.status == 403, (route.name, answer)


def test_lists_are_cut_to_what_who_asks_may_see(locked, eve):
    shown = {}
    for route in locked.routes:
        if route.right == KNOWN and not route.changes:
            shown[route.path] = eve.ask(route.method, path_of(route))
    assert {path: answer.status for path, answer in shown.items()} == {
        "/api/topics": 200,
        "/api/groups": 200,
        "/api/transactions": 200,
        "/api/access": 200,
        "/api/settings/{kind}/{name}": 403,
        "/api/schemas": 200,
        "/api/schemas/{subject:path}": 403,
    }
    assert shown["/api/topics"].value["topics"] == []
    assert shown["/api/groups"].value["groups"] == []
    assert shown["/api/transactions"].value["transactions"] == shown["/api/transactions"].value["holders"] == []
    access = shown["/api/access"].value
    assert (access["users"], access["rules"], access["quotas"], access["tokens"] or None) == (None, None, None, None)


def test_every_change_wants_the_token_the_origin_and_json(locked):
    admin = locked.admin
    for route in locked.routes:
        if not route.changes:
            continue
        path = path_of(route)
        if not route.right.is_public:
            answer = admin.ask(route.method, path, X_Ottla_Token=None)
            assert (answer.status, answer.value["error"]) == (403, "TOKEN_NEEDED"), (route.name, answer)
        for strange in ({"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
            answer = admin.ask(route.method, path, **strange)
            assert (answer.status, answer.value["error"]) == (403, "CROSS_SITE"), (route.name, answer)
        if route.method != "DELETE":
            assert admin.ask(route.method, path, Content_Type="text/plain").status == 415, route.name


def test_nothing_was_changed_by_all_of_that(locked):
    found = locked.admin.get("/api/topics").value["topics"]
    assert [(each["name"], each["records"]) for each in found] == [("orders", 1)]


def test_every_answer_keeps_browsers_from_running_what_is_not_ours(locked):
    for route in locked.routes:
        if not route.changes:
            headers = locked.admin.ask("GET", path_of(route)).headers
            assert "script-src 'self'" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"


def test_the_description_has_every_route_of_the_api(locked):
    described = locked.admin.get("/api/openapi.json").value["paths"]
    for route in locked.routes:
        if not route.path.startswith("/static") and route.path != "/":
            assert route.method.lower() in described[route.path.replace(":path", "")], route.name


READS_QUERY = re.compile(r'call\.(?:number|query\.get)\("(\w+)"|call\.query\["(\w+)"|"(\w+)" in call\.query')
READS_BODY = re.compile(r'sent(?:\.get\(|\[)"(\w+)"')


def source_of(route):
    """A handler, and the helpers of its module that it gives the call to."""
    module, text = inspect.getmodule(route.handle), inspect.getsource(route.handle)
    helpers = {getattr(module, name, None) for name in re.findall(r"\b(_\w+)\(call", text)} - {None}
    return text + "".join(map(inspect.getsource, helpers))


def test_the_description_has_every_parameter_and_field_that_is_read(locked):
    found = 0
    for route in locked.routes:
        text = source_of(route)
        read = {next(filter(None, names)) for names in READS_QUERY.findall(text)}
        assert read == {each.name for each in route.query}, route.name
        assert set(READS_BODY.findall(text)) <= set(route.body), route.name
        found += len(read)
    assert found > 15, "it is still so that handlers are read"


def test_the_description_names_parts_of_paths_and_every_operation_once(locked):
    described = locked.admin.get("/api/openapi.json").value
    assert described["openapi"] == "3.1.0"
    operations = [(path, each) for path, methods in described["paths"].items() for each in methods.values()]
    assert len({each["operationId"] for _, each in operations}) == len(operations)
    for path, each in operations:
        named = {one["name"] for one in each["parameters"] if one["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path)), path
        assert {"summary", "responses", "security"} <= set(each), path


def test_read_only_changes_nothing_whoever_asks():
    with KafkaBroker({**LOCKED, "ottla.console.read.only": "true"}, users={"admin": "right"}) as broker:
        admin = HttpClient(broker)
        admin.log_in("admin", "right")
        assert admin.get("/api/session").value["read_only"] is True
        for route in broker.call(all_routes):
            if route.changes and not route.right.is_public:
                answer = admin.ask(route.method, path_of(route), CHANGES.get(path_of(route)))
                assert (answer.status, answer.value["error"]) == (403, "READ_ONLY"), (route.name, answer)


# -- logging in -------------------------------------------------------------------------------------------------------


def test_a_session_begins_with_the_password_and_ends_with_logging_out(locked):
    client = HttpClient(locked)
    assert client.log_in("eve", "wrong").status == 401
    assert client.get("/api/session").value == {"login_needed": True, "is_known": False}
    answer = client.log_in("eve", "hers")
    assert "HttpOnly; SameSite=Strict" in answer.headers["set-cookie"]
    assert client.get("/api/session").value["user"] == "User:eve"
    assert client.post("/api/logout").status == 200
    assert client.get("/api/topics").status == 401


def test_a_new_password_ends_sessions_and_a_deleted_user_has_none(locked):
    admin, client = locked.admin, HttpClient(locked)
    assert admin.post("/api/users", {"name": "bob", "password": "one"}).status == 201
    assert client.log_in("bob", "one").status == 200
    assert admin.post("/api/users", {"name": "bob", "password": "two"}).status == 201
    assert client.get("/api/topics").status == 401
    assert client.log_in("bob", "two").status == 200
    assert admin.ask("DELETE", "/api/users/bob").status == 200
    assert client.get("/api/topics").status == 401


def test_metrics_and_health_are_behind_the_same_gate(locked, eve):
    stranger = HttpClient(locked)
    assert stranger.get("/metrics").status == 401
    assert eve.get("/metrics").status == 403
    assert b"kafka_server_" in locked.admin.get("/metrics").content
    assert stranger.get("/health/live").content == b"live\n"
    assert stranger.get("/health/ready").content == b"ready\n"
    assert stranger.ask("GET", "/metrics", Authorization="Basic YWRtaW46cmlnaHQ=").status == 200


# -- what is open, and when it is loaded ------------------------------------------------------------------------------


def test_bodies_have_a_limit_and_unknown_paths_say_so():
    with KafkaBroker({"ottla.admin.listener": "127.0.0.1:0"}) as broker:
        client = HttpClient(broker).begin()
        assert client.post("/api/topics", b"x" * 2_000_000).status == 413
        assert client.post("/api/topics", b"not json").status == 400
        assert client.post("/api/topics", [1]).status == 400
        assert client.get("/no/such/path").status == 404
        answer = client.post("/metrics")
        assert (answer.status, set(answer.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})


def test_without_the_packages_metrics_and_health_stay(monkeypatch):
    for name in PACKAGES:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("ottla.broker.http.door.find_spec", lambda name: None)
    with KafkaBroker({"ottla.admin.listener": "127.0.0.1:0"}) as broker:
        client = HttpClient(broker)
        assert broker.info.http_parts == ()
        assert client.get("/health/ready").content == b"ready\n"
        assert client.get("/api/session").status == 404


def test_a_console_that_was_asked_for_and_cannot_be_loaded_is_said_in_words(monkeypatch, make_broker):
    monkeypatch.setattr("ottla.broker.http.door.find_spec", lambda name: None)
    broker = make_broker(**{"ottla.console.enable": "true"}).broker
    with pytest.raises(InvalidSetting, match=r"pip install 'ottla\[console\]'"):
        parts_that_are_on(broker)


def test_a_console_that_is_switched_off_is_not_there():
    settings = {"ottla.admin.listener": "127.0.0.1:0", "ottla.console.enable": "false"}
    with KafkaBroker(settings) as broker:
        client = HttpClient(broker)
        assert (broker.info.http_parts, client.get("/").status) == ((), 404)
        assert client.get("/health/live").status == 200


def test_a_part_that_cannot_be_made_lets_nobody_wait(monkeypatch, caplog):
    def fails(broker):
        raise RuntimeError("planted")

    monkeypatch.setattr("ottla.broker.console.part.make_part", fails)
    with KafkaBroker({"ottla.admin.listener": "127.0.0.1:0"}) as broker:
        client = HttpClient(broker)
        for _ in range(2):  # the first connection finds it out
            with pytest.raises(OSError):
                client.get("/")
        assert broker.info.bootstrap_servers
    assert "cannot be served" in caplog.text


def test_where_a_loop_cannot_watch_a_socket_the_door_is_loaded_at_once(monkeypatch):
    def refuses(*_):
        raise NotImplementedError

    monkeypatch.setattr(asyncio.SelectorEventLoop, "add_reader", refuses)

    async def scenario():
        served = asyncio.Event()

        class Server:
            should_exit = False

            async def serve(self, sockets=None):
                served.set()

        listener = LazyListener(lambda bound: Serving(Server(), []), [])
        await listener.start(("127.0.0.1", 0))
        await asyncio.wait_for(served.wait(), HANG_S)
        await listener.stop()

    # Reading from its own socket pair is what a loop does with the private twin of this method.
    asyncio.run(scenario())
