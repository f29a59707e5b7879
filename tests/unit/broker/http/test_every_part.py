"""Every route that a broker serves over HTTP, whichever part it is of and whatever its address: Host, login, CSRF.

The routes are those that were handed to the server, so a part that is added tomorrow is checked without a word here.
What each route of the console does beyond that is in test_door.py.
"""

import re

import pytest
from tests.unit.broker.http.http_client import HttpClient
from tests.unit.broker.http.test_door import LOCKED, all_routes

from ottla.broker.http import serving
from ottla.broker.http.parts import PARTS
from ottla.testing.broker import KafkaBroker

SETTINGS = {**LOCKED, "ottla.schema.registry.listener": "localhost:0"}
"""By another name, because parts that name the same address share it."""


class At(HttpClient):
    """A client of one address."""

    def __init__(self, address):
        self.host, self.port = address
        self.cookie = self.token = ""


class Served:
    """What is mounted at the addresses of one broker."""

    def __init__(self, broker, mounted_by_cookie):
        self.admin_address = broker.info.admin_address
        self.names = {each.name for each in broker.info.http_parts}
        self.addresses = {self.admin_address, *(each.address for each in broker.info.http_parts)}
        self.console_routes = broker.call(all_routes)
        for address in self.addresses:
            At(address).get("/")  # loads what is there
        self.routes = {
            address: [route for each in mounted_by_cookie[f"ottla-{address[1]}"] for route in each.part.routes]
            for address in self.addresses
        }

    def each(self):
        for address, routes in self.routes.items():
            for route in routes:
                yield At(address), route, re.sub(r"\{(\w+)(?::path)?\}", "0", route.path)


@pytest.fixture(scope="module")
def served():
    mounted_by_cookie, application = {}, serving.application

    def noted(broker, mounted, cookie, admission):
        mounted_by_cookie[cookie] = mounted
        return application(broker, mounted, cookie, admission)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "application", noted)
        with KafkaBroker(SETTINGS, users={"admin": "right"}) as broker:
            yield Served(broker, mounted_by_cookie)


def test_all_parts_are_there_and_test_door_has_all_routes_of_the_console(served):
    assert served.names == {row.name for row in PARTS}
    assert len(served.addresses) == 2
    at_console = {route.name for route in served.routes[served.admin_address]}
    assert at_console == {route.name for route in served.console_routes}
    assert sum(len(routes) for routes in served.routes.values()) > 100


def test_every_route_of_every_part_is_for_names_of_this_machine(served):
    for client, route, path in served.each():
        answer = client.ask(route.method, path, Host="evil.example")
        assert answer.status == 403, (route.name, answer)


def test_every_route_of_every_part_wants_a_login_unless_it_is_public(served):
    for client, route, path in served.each():
        if not route.right.is_public:
            answer = client.ask(route.method, path)
            assert answer.status == 401, (route.name, answer)


def test_no_change_of_any_part_is_taken_from_a_page_of_another_site(served):
    changes = [each for each in served.each() if each[1].changes]
    assert len(changes) > 30
    password = {"Authorization": "Basic YWRtaW46cmlnaHQ="}
    for client, route, path in changes:
        for strange in ({"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
            answer = client.ask(route.method, path, **password, **strange)
            assert answer.status == 403, (route.name, answer)
        if route.method != "DELETE":  # a form of another site's page can send this type, and no other method
            answer = client.ask(route.method, path, Content_Type="text/plain", **password)
            assert answer.status == 415, (route.name, answer)
