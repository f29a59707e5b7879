"""A pipeline that appends to a Delta table, keeps one up to date by key, and one that is a whole result. Prints JSON.

python delta_tables.py DIRECTORY SERVERS JARS
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from ottla import Admin, NewTopic, Producer
from ottla.spark.pipelines.connecting import open_session
from ottla.spark.pipelines.running import load, run_triggered
from ottla.spark.pipelines.storage import Storage

HERE, SERVERS, JARS = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
SETTINGS = {
    "spark.jars": ",".join(str(jar) for jar in sorted(JARS.glob("*.jar"))),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.warehouse.dir": str(HERE / "warehouse"),
    "spark.databricks.delta.snapshotPartitions": "2",  # of 50, of which each batch would start as many tasks
    "spark.sql.shuffle.partitions": "2",
}
PIPELINE = """
name: lake
sources: {clicks: {topic: clicks, format: json, schema: "user STRING, clicks INT, gone BOOLEAN"}}
steps: {counts: "SELECT user, sum(clicks) AS clicks FROM clicks GROUP BY user HAVING sum(clicks) < 10"}
sinks:
  added: {from: clicks, table: added, format: delta}
  last: {from: clicks, table: last, format: delta, mode: update, key: user, delete: gone}
  whole: {from: counts, table: whole, format: delta, mode: complete, key: user}
"""


def main() -> None:
    file = HERE / "lake.yml"
    file.write_text(PIPELINE)
    with Admin(bootstrap_servers=SERVERS) as admin:
        admin.create_topics([NewTopic("clicks", 1)])
    loaded = load(file, {})
    plan = loaded.plan(SERVERS)
    told: dict[str, object] = {}
    with open_session("lake", master="local[2]", settings=SETTINGS, log=HERE / "spark.log") as spark:
        for clicks in ([("a", 1), ("b", 2), ("a", 3)], [("b", 20), ("c", 5), ("a", None)], None):
            with Producer(bootstrap_servers=SERVERS) as producer:
                for user, count in clicks or ():
                    value = {"user": user, "clicks": count or 0, "gone": count is None}
                    producer.send("clicks", json.dumps(value).encode())
            if clicks is None:  # as after a crash behind a write: Spark repeats the last batch
                for flow in plan.flows:
                    commits = Storage(plan.storage).checkpoints_of(flow.name)[-1] / "commits"
                    last = max((path for path in commits.glob("[0-9]*")), key=lambda path: int(path.name))
                    for path in commits.glob(f"*{last.name}*"):
                        path.unlink()
            run_triggered(plan, spark, loaded.watch(plan), lambda seconds: bool(time.sleep(seconds)))
            told[str(len(told))] = {
                name: sorted([row.user, row.clicks] for row in spark.table(name).collect())
                for name in ("added", "last", "whole")
            }
    print(json.dumps(told))


main()
