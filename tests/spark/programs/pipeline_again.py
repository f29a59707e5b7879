"""A pipeline is run, reset and run again, and a period of it is filled again. Prints JSON.

python pipeline_again.py DIRECTORY SERVERS
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from ottla import Producer
from ottla.spark.pipelines.backfilling import plan_backfill, run_backfill
from ottla.spark.pipelines.connecting import open_session
from ottla.spark.pipelines.resetting import plan_reset, reset
from ottla.spark.pipelines.running import load, run_triggered

HERE, SERVERS = Path(sys.argv[1]), sys.argv[2]
BEGIN_MS = 1_767_225_600_000
PIPELINE = """
name: again
sources:
  clicks:
    topic: clicks
    format: json
    schema: number INT
    watermark: {column: _timestamp, delay: 1 second}
steps:
  minutes: SELECT window.start AS minute, count(*) AS clicks FROM clicks GROUP BY window(_timestamp, '1 minute')
sinks:
  files: {from: clicks, files: files}
  counts: {from: minutes, topic: counts, key: minute}
dead_letters: dead
"""


def send(numbers: range) -> None:
    with Producer(bootstrap_servers=SERVERS) as producer:
        for number in numbers:
            value = b"no click" if number % 10 == 3 else json.dumps({"number": number}).encode()
            producer.send("clicks", value=value, timestamp_ms=BEGIN_MS + number * 3_000)


def main() -> None:
    (HERE / "again.yml").write_text(PIPELINE)
    loaded = load(HERE / "again.yml", os.environ)
    plan = loaded.plan(SERVERS)
    told: dict[str, object] = {}
    send(range(60))
    with open_session("again", master="local[2]", settings={}, log=HERE / "spark.log") as spark:

        def run() -> None:
            run_triggered(plan, spark, loaded.watch(plan), lambda seconds: bool(time.sleep(seconds)))

        def numbers(place: str) -> list[int]:
            return sorted(row.number for row in spark.read.parquet(str(HERE / place)).collect())

        run()
        told["first"] = numbers("files")
        reset(plan_reset(plan, ["files"]))
        send(range(60, 80))
        run()
        told["after reset"] = numbers("files")
        period_ms = (BEGIN_MS + 60_000, BEGIN_MS + 180_000)
        for _ in range(2):
            backfill = plan_backfill(plan, loaded.graph, HERE, SERVERS, period_ms, ["files", "counts", "clicks__dead"])
            told.setdefault("written", run_backfill(plan, backfill, spark, lambda flow, rows: None))
            file = HERE / "storage" / "_ottla" / "backfills" / f"{backfill.name}.json"
            noted = json.loads(file.read_text())
            told.setdefault("done", noted["done"])
            file.write_text(json.dumps({**noted, "done": []}))  # as if it had been killed before it could note that
        told["backfilled"] = numbers(f"files-{backfill.name}")
    print(json.dumps(told))


main()
