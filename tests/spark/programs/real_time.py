"""Spark's own connector in real-time mode on our broker: what came, as JSON. Arguments: servers, scratch.

A batch of real-time mode lasts for a whole minute here, so rows that are there earlier were not written by its end.
"""

import json
import sys
import time
from pathlib import Path

from tests.conformance.kafka_jars import find_jars
from tests.patience import HANG_S

import ottla
from ottla.spark import session

SERVERS, SCRATCH = sys.argv[1], Path(sys.argv[2])
RECORDS, BATCH_S = 20, 60


def main() -> None:
    jars = ",".join(str(jar) for jar in find_jars("spark-4.3", "spark").glob("*.jar"))
    with ottla.Admin(bootstrap_servers=SERVERS) as admin:
        admin.create_topics([ottla.NewTopic(name, 1) for name in ("quick-in", "quick-out")])
    spark = session("real time", master="local[4]", settings={"spark.jars": jars}, quiet=True)
    servers = {"kafka.bootstrap.servers": SERVERS}
    rows = spark.readStream.format("kafka").options(**servers, subscribe="quick-in", startingOffsets="earliest").load()
    loud = rows.selectExpr("upper(cast(value as string)) as value")
    writer = loud.writeStream.format("kafka").outputMode("update").options(**servers, topic="quick-out")
    writer = writer.option("checkpointLocation", str(SCRATCH / "checkpoint"))
    query = writer.trigger(realTime=f"{BATCH_S} seconds").start()
    begun = time.monotonic()
    with ottla.Producer(bootstrap_servers=SERVERS) as producer:
        producer.send_many("quick-in", [f"value {number}" for number in range(RECORDS)])
    values = []
    with ottla.Consumer(bootstrap_servers=SERVERS, auto_offset_reset="earliest") as consumer:
        consumer.assign([ottla.TopicPartition("quick-out", 0)])
        while len(values) < RECORDS and time.monotonic() - begun < HANG_S and query.exception() is None:
            values += [record.value.decode() for record in consumer.poll(0.2)]
    ended = query.lastProgress is not None
    error = query.exception()
    query.stop()
    if error is not None:
        raise error
    sys.stdout.write(json.dumps({"values": values, "before the end of the batch": not ended}) + "\n")


if __name__ == "__main__":
    main()
