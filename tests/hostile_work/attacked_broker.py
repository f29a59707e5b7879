"""The broker that is attacked, as a process of its own: a login, access rules, console and registry, a real directory.

    python -m tests.hostile_work.attacked_broker DIRECTORY [member|controller] [API:KIND of a planted fault ...]

It says in a line of JSON where it is, and answers commands that come as lines of JSON: `begin` and `end` of a
measurement (meter.py), `unit` for how fast the machine is now, `freeze` when it has been filled. It ends with its
input. A `member` is that of a cluster of one, which serves what brokers ask each other, too. A `controller` is the only
voter of a quorum, and open: whoever attacks it may do everything there.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import threading
import time
from typing import Any

from tests.hostile_work.meter import Meter

from ottla.broker.broker import Broker
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import handler_of
from ottla.broker.server import Server
from ottla.cli.collecting import collect_for_service
from ottla.cli.commands.broker import SWITCH_INTERVAL_S
from ottla.cluster.features import first_features
from ottla.protocol.api import APIS_BY_NAME
from ottla.simulation.zookeeper_model import ZooKeeperModel
from ottla.testing import broker as testing_broker
from ottla.testing.broker import KafkaBroker

ADDRESS_SPACE_BYTES = 6 << 30
"""So that a blow-up of memory is an error of this process and not the end of the machine."""
USERS = {"admin": "admin-secret", "bob": "bob-secret", "mallory": "mallory-secret"}
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
OAUTH_HANDLER = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
LISTENER = "listener.name.sasl_plaintext"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
    f"{LISTENER}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required "
    + " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    + ";",
    f"{LISTENER}.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
    f"{LISTENER}.oauthbearer.sasl.server.callback.handler.class": OAUTH_HANDLER,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "connection.failed.authentication.delay.ms": 0,
    "delegation.token.secret.key": "a secret of the brokers",
    "ottla.admin.listener": "127.0.0.1:0",
    "ottla.admin.login": "true",
    "ottla.schema.registry.listener": "localhost:0",  # by another name: parts that name the same address share it
    "log.flush.interval.messages": 1_000_000,
    "ottla.durability": "replicated",
    "auto.create.topics.enable": "false",  # so that the broker is the same for every attack
}
MEMBER, CONTROLLER = "member", "controller"
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
OF_MEMBERS = {
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    f"{LISTENER}.plain.sasl.jaas.config": f'{PLAIN_MODULE} required username="admin" password="{USERS["admin"]}" '
    + " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    + ";",
    "ottla.schema.registry.listener": "",
}
OF_CONTROLLERS = {
    "process.roles": "controller",
    "broker.id": 1,
    "listeners": "CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
    "ottla.cluster.id": CLUSTER_ID,
}


def burn(duration_ms: float) -> None:
    end_s = time.thread_time() + duration_ms / 1000
    while time.thread_time() < end_s:
        pass


def unit_ms() -> float:
    """What a fixed piece of Python costs now: neighbours on the same core make all processor time longer."""
    times = []
    for _ in range(5):
        before_s = time.thread_time()
        sum(number % 7 for number in range(50_000))
        times.append(time.thread_time() - before_s)
    return min(times) * 1000


def hold_the_lock(duration_ms: float) -> None:
    """One call into C that keeps the interpreter's lock: reading numbers grows with the square of their length."""
    sys.set_int_max_str_digits(0)
    digits, before_s = 20_000, time.thread_time()
    while (time.thread_time() - before_s) * 1000 < duration_ms:
        digits, before_s = digits * 3 // 2, time.thread_time()
        int("9" * digits)


def plant(api_name: str, kind: str) -> None:
    """Make the handler of an API slow on the loop, let it keep the lock in a thread, or take memory."""
    module = handler_of(APIS_BY_NAME[api_name])
    handle = module.handle

    def slow_on_the_loop(broker: Broker, request: Any, context: RequestContext) -> Any:
        burn(200.0)
        return handle(broker, request, context)

    async def keeps_the_lock(broker: Broker, request: Any, context: RequestContext) -> Any:
        await asyncio.get_running_loop().run_in_executor(None, hold_the_lock, 200.0)
        found = handle(broker, request, context)
        return await found if asyncio.iscoroutine(found) else found

    def takes_memory(broker: Broker, request: Any, context: RequestContext) -> Any:
        del [bytearray(1 << 20) for _ in range(512)][:]
        return handle(broker, request, context)

    module.handle = {"loop": slow_on_the_loop, "lock": keeps_the_lock, "memory": takes_memory}[kind]  # type: ignore[attr-defined]


def as_member(*arguments: Any, **named: Any) -> Server:
    """A server whose truth is shared, with nobody."""
    return Server(*arguments, **named, shared_store=ZooKeeperModel(CLUSTER_ID, first_features()).join())


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    collect_for_service()
    words = sys.argv[2:]
    if is_member := MEMBER in words:
        words.remove(MEMBER)
        testing_broker.Server = as_member  # type: ignore[misc, assignment]
    if is_controller := CONTROLLER in words:
        words.remove(CONTROLLER)
    for api_name, kind in (pair.split(":") for pair in words):
        plant(api_name, kind)
    settings, users = (SETTINGS | OF_MEMBERS, {}) if is_member else (SETTINGS, dict(USERS))
    if is_controller:
        settings, users = OF_CONTROLLERS, {}
    with KafkaBroker(settings, directory=sys.argv[1], seed=1, users=users) as broker:
        thread = broker.call(lambda _: threading.get_ident())
        loop = broker._loop
        assert loop is not None
        meter = Meter(loop, thread)
        parts = {part.name: list(part.address) for part in broker.info.http_parts}
        host, _, port = broker.bootstrap_servers.rpartition(":")
        _say({"kafka": [host, int(port)], "admin": list(broker.info.admin_address or ()), "parts": parts})
        for line in sys.stdin:
            command = json.loads(line)
            if command == "begin":
                meter.begin()
                _say({})
            elif command == "end":
                _say(meter.end())
            elif command == "unit":
                _say({"unit_ms": unit_ms()})
            elif command == "freeze":
                gc.collect()
                gc.freeze()  # as a broker does when it has started
                _say({})


def _say(value: object) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
