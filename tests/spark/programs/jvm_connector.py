"""Spark's own connector for Kafka at work on a broker: what it read and wrote, as JSON. Arguments: servers, scratch.

It runs in a process of its own, because jars must be named before a session begins.
"""

import json
import sys
from pathlib import Path

from tests.conformance.kafka_jars import find_jars

from ottla.spark import session

SERVERS, SCRATCH = sys.argv[1], Path(sys.argv[2])


def main() -> None:
    jars = ",".join(str(jar) for jar in find_jars("spark-4.3", "spark").glob("*.jar"))
    settings = {"spark.jars": jars, "spark.sql.shuffle.partitions": "2"}
    spark = session("jvm connector", master="local[2]", settings=settings, quiet=True)
    found = {"batch": values(spark, "kafka", "source")}
    copy = read(spark.read, "kafka", "source").selectExpr("key", "value", "partition", "headers")
    write(copy.write, topic="batch-copy").save()
    found["batch copy, read by ours"] = values(spark, "ottla", "batch-copy")
    stream = read(spark.readStream, "kafka", "source").selectExpr("key", "value")
    query = write(stream.writeStream, topic="stream-copy", checkpointLocation=str(SCRATCH / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    found["stream copy"] = values(spark, "kafka", "stream-copy")
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    theirs, ours = (read(spark.read, side, "source").select(*columns) for side in ("kafka", "ottla"))
    found["rows that differ"] = theirs.exceptAll(ours).count() + ours.exceptAll(theirs).count()
    found["schemas"] = [ours.schema.simpleString(), theirs.schema.simpleString()]
    sys.stdout.write(json.dumps(found) + "\n")


def read(reader, side, topic):
    options = {"kafka.bootstrap.servers": SERVERS, "subscribe": topic, "includeHeaders": "true"}
    return reader.format(side).options(**options, startingOffsets="earliest").load()


def write(writer, **options):
    return writer.format("kafka").options(**{"kafka.bootstrap.servers": SERVERS}, includeHeaders="true", **options)


def values(spark, side, topic):
    rows = read(spark.read, side, topic).selectExpr("cast(value as string) as value").collect()
    return sorted(row.value for row in rows)


if __name__ == "__main__":
    main()
