"""A broker with something to see: topics, records of all kinds, groups of all kinds that keep up or do not, an aborted
transaction and one that hangs, clients that push their numbers. Everything a newcomer would ask the console about is in
it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.schema_registry import ask, url_of
from tests.unit.broker.http.http_client import HttpClient

import ottla
from ottla.broker.server import Server
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.spark.source.group_commits import NOTE
from ottla.testing import KafkaBroker
from ottla.values import OffsetAndMetadata

SCRIPT = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
QUIET = {"invoices": 2, "mails": 1, "parcels": 4, "prices": 1, "returns": 2, "stock": 3}
COUNTRIES = ("CZ", "DE", "FR", "JP", "BR", "US")


@contextmanager
def shop(directory: Path | None = None, **settings: str) -> Iterator[KafkaBroker]:
    """The broker, with a consumer that stays in the group `billing`."""
    chosen = {
        "ottla.admin.listener": "127.0.0.1:0",
        "ottla.schema.registry.listener": "127.0.0.1:0",
        "log.index.interval.bytes": "2048",
    }
    with KafkaBroker({**chosen, **settings}, directory=directory, seed=7) as broker:
        servers = broker.bootstrap_servers
        _make_topics(servers)
        for day in range(5):
            _sell(servers, day)
            _begin_segments(broker, "orders")
        _give_up(broker)
        with (
            ottla.Consumer(
                bootstrap_servers=servers, group_id="billing", client_id="billing-1", auto_offset_reset="earliest"
            ) as billing,
            ottla.Producer(
                bootstrap_servers=servers,
                client_id="refunds",
                transactional_id="refunds-1",
                transaction_timeout_ms=900_000,
            ) as hanging,
            ottla.Producer(bootstrap_servers=servers, client_id="web-shop", linger_ms=5, batch_size=4096) as busy,
        ):
            HttpClient(broker).begin().post("/api/clients/watch", {"watch": True})
            broker.web_shop = busy
            _read(billing, "orders", 400)
            _left_behind(servers)
            _shared(servers)
            _query(servers, 12, 150)
            _ship(broker)
            hanging.init_transactions()
            hanging.begin_transaction()
            hanging.send("payments", b'{"refund": 7}', key=b"open").get(60)
            hanging.flush()
            yield broker
            hanging.abort_transaction()


def _make_topics(servers: str) -> None:
    with ottla.Admin(bootstrap_servers=servers) as admin:
        admin.create_topics(
            [
                ottla.NewTopic("orders", 3),
                ottla.NewTopic("payments", 2),
                ottla.NewTopic("clicks", 6),
                ottla.NewTopic("users", 1, configs={"cleanup.policy": "compact"}),
                *(ottla.NewTopic(name, count) for name, count in QUIET.items()),
            ]
        )


def _begin_segments(broker: KafkaBroker, topic: str) -> None:
    """As after so many bytes or so much time."""

    def roll(server: Server) -> None:
        for partition in server.broker.replicas:
            if partition.name.topic == topic:
                partition.log.roll(server.broker.clock.now_ms())

    broker.call(roll)


def _sell(servers: str, day: int) -> None:
    random = Random(day)
    with ottla.Producer(bootstrap_servers=servers, linger_ms=1, batch_size=4096) as producer:
        for number in range(day * 300, day * 300 + 200 + 50 * day):
            order = {
                "id": number,
                "user": {"id": random.randrange(90), "country": random.choice(COUNTRIES)},
                "total": round(random.uniform(3, 400), 2),
                "items": [{"sku": f"A{random.randrange(40)}", "count": random.randrange(1, 4)}],
            }
            producer.send(
                "orders",
                json.dumps(order).encode(),
                key=f"user-{order['user']['id']}".encode(),
                headers=[("trace", f"{number:08x}".encode()), ("source", b"web")],
            )
        for at, name in enumerate(QUIET):
            for number in range(30 + 17 * at):
                producer.send(name, f'{{"{name}": {number}, "day": {day}}}'.encode(), key=str(number).encode())
        for number in range(120):
            producer.send("clicks", f"/product/{number % 40}".encode(), key=f"s{number % 60}".encode())
        if day:
            return
        producer.send("users", b'{"name": "Ottla"}', key=b"user-1")
        producer.send("users", SCRIPT.encode(), key=SCRIPT.encode(), headers=[("x", SCRIPT.encode())])
        producer.send("users", bytes(range(40)), key=b"\xff\xfe")
        producer.send("users", None, key=b"user-2")


def _give_up(broker: KafkaBroker) -> None:
    """Transactions over some segments, a few of them aborted."""
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="payments-1") as producer:
        producer.init_transactions()
        for number in range(12):
            producer.begin_transaction()
            for payment in range(15 + 7 * (number % 5)):
                value = f'{{"payment": {1000 * number + payment}, "order": {17 * payment % 300}}}'
                producer.send("payments", value.encode(), key=f"user-{payment}".encode())
                if payment % 10 == 9:
                    producer.flush()
            producer.flush()
            producer.abort_transaction() if number % 4 == 2 else producer.commit_transaction()
            if number in (2, 6, 9):
                _begin_segments(broker, "payments")


def _read(consumer: ottla.Consumer, topic: str, count: int) -> None:
    consumer.subscribe([topic])
    read = 0
    while read < count:
        read += len(consumer.poll(timeout=5, max_records=100))
    consumer.commit()


def _left_behind(servers: str) -> None:
    with ottla.Consumer(bootstrap_servers=servers, group_id="nightly-report", auto_offset_reset="earliest") as consumer:
        _read(consumer, "clicks", 100)


def _shared(servers: str) -> None:
    """A share group that has done some of its work."""
    with ottla.Admin(bootstrap_servers=servers) as admin:
        first = AlterConfig("share.auto.offset.reset", "earliest")
        admin.incremental_alter_configs({ConfigResource(ConfigResourceType.GROUP, "packers"): [first]})
    with ottla.ShareConsumer("clicks", bootstrap_servers=servers, group_id="packers") as worker:
        while not list(worker.poll(5.0)):
            pass


PARCEL = {"type": "record", "name": "Parcel", "fields": [{"name": "id", "type": "long"}]}
SENT = {"name": "sent_at", "type": ["null", "long"], "default": None, "doc": "ms since 1970"}
ADDRESS = 'syntax = "proto3";\npackage shop;\n\nmessage Address {\n  string street = 1;\n  string city = 2;\n}\n'
LABEL = 'syntax = "proto3";\nimport "address.proto";\n\nmessage Label {\n  shop.Address to = 1;\n}\n'
PRICE = {"type": "object", "properties": {"sku": {"type": "string"}, "cents": {"type": "integer", "minimum": 0}}}


def _ship(broker: KafkaBroker) -> None:
    """Schemas of all kinds, one of them in two versions, one that refers to another; a record that has one."""
    url = url_of(broker.info.http_parts)
    parcel = {**PARCEL, "fields": [*PARCEL["fields"], SENT]}
    reference = {"name": "address.proto", "subject": "address", "version": 1}
    for subject, sent in (
        ("shipments-value", {"schema": json.dumps(PARCEL)}),
        ("shipments-value", {"schema": json.dumps(parcel)}),
        ("prices-value", {"schema": json.dumps(PRICE), "schemaType": "JSON"}),
        ("address", {"schema": ADDRESS, "schemaType": "PROTOBUF"}),
        ("labels-value", {"schema": LABEL, "schemaType": "PROTOBUF", "references": [reference]}),
    ):
        ask(f"{url}/subjects/{subject}/versions", sent)
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("shipments", b"\x00\x00\x00\x00\x02\x0e\x00", key=b"7").get(60)


def _query(servers: str, batch: int, offset: int) -> None:
    """As a Spark query commits with the option commitGroupId."""
    done = {ottla.TopicPartition("orders", index): OffsetAndMetadata(offset, NOTE.format(batch)) for index in range(3)}
    with ottla.Admin(bootstrap_servers=servers) as admin:
        admin.alter_consumer_group_offsets("revenue-by-country", done)
