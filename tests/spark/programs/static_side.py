"""A stream joined with a topic that grows: what each batch finds, by format("ottla") and by Spark's own connector.

A program with Spark's connector runs in a process of its own, because jars must be named before a session begins.
Arguments: servers.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from ottla import Admin, NewTopic, Producer

PARTITIONS = 2


def joined_batch_by_batch(spark: Any, servers: str, name: str) -> list[list[str]]:
    """Every batch has one order of each customer, and before every batch there is another customer."""
    orders, customers = f"{name}-orders", f"{name}-customers"
    options = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic(each, PARTITIONS, 1) for each in (orders, customers)])
        table = spark.read.format(name).options(**options, subscribe=customers).load()
        stream = spark.readStream.format(name).options(**options, subscribe=orders).load()
        joined = stream.select("key").join(table.selectExpr("key", "cast(value as string) as name"), "key")
        query = joined.writeStream.format("memory").queryName(f"joined_{name}").start()
        try:
            return [_batch(spark, query, admin, producer, number) for number in range(4)]
        finally:
            query.stop()


def _batch(spark: Any, query: Any, admin: Any, producer: Any, number: int) -> list[str]:
    name = query.name.removeprefix("joined_")
    partition = number % PARTITIONS
    if number == 3:
        admin.create_partitions({f"{name}-customers": PARTITIONS + 1})
        partition = PARTITIONS
    customer, seen = b"%d" % number, spark.table(query.name).count()
    producer.send(f"{name}-customers", b"customer %d" % number, key=customer, partition=partition).result()
    for each in range(number + 1):
        producer.send(f"{name}-orders", b"order", key=b"%d" % each)
    producer.flush()
    query.processAllAvailable()
    return sorted(row.name for row in spark.table(query.name).collect()[seen:])


def main(servers: str) -> None:
    from tests.conformance.kafka_jars import find_jars

    from ottla.spark import session

    jars = ",".join(str(jar) for jar in find_jars("spark-4.3", "spark").glob("*.jar"))
    settings = {"spark.jars": jars, "spark.sql.shuffle.partitions": "2"}
    spark = session("static side", master="local[2]", settings=settings, quiet=True)
    found = {name: joined_batch_by_batch(spark, servers, name) for name in ("kafka", "ottla")}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
