"""A pipeline's life in one Spark: dry-run, run, go on all the time, rules that fail. Prints JSON.

python pipeline_story.py DIRECTORY SERVERS
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from ottla import Producer
from ottla.spark.pipelines.connecting import open_session
from ottla.spark.pipelines.declarative import PipelineFailed
from ottla.spark.pipelines.file_logs import ForeignDirectory, refuse_foreign_directories
from ottla.spark.pipelines.running import dry_run, load, run_always, run_triggered

HERE, SERVERS = Path(sys.argv[1]), sys.argv[2]
HANG_S = 600
STEPS = """
from pyspark.sql import functions as F

ENDING = "!"

def louder(text):
    return text.upper() + ENDING

def shouted(titled):
    return titled.withColumn("title", F.udf(louder, "string")("title"))
"""
GOOD = """
name: story
sources:
  clicks:
    topic: clicks
    format: json
    schema: user STRING, page STRING, at TIMESTAMP, ms INT
    group: story
    expect:
      has_user: user IS NOT NULL
      is_quick: {condition: ms < 1000, action: drop}
  pages: {files: pages.csv, format: csv, static: true, options: {header: true}}
steps:
  titled: SELECT clicks.*, title FROM clicks JOIN pages USING (page)
  shouted: {python: "steps.py:shouted", expect: {is_known: "title <> 'TWO!'"}}
sinks:
  records: {from: shouted, topic: shouted, key: ms, headers: {page: page}}
  parts: {from: titled, files: parts, partition_by: page}
  rows: {from: titled, jdbc: "jdbc:derby:@HERE@/db;create=true", table: clicks}
dead_letters: dead
"""
FAILING = """
name: failing
sources: {clicks: {topic: clicks, format: string, expect: {is_short: {condition: length(value) < 5, action: fail}}}}
sinks: {out: {from: clicks, topic: never}}
"""
WRONG = """
name: wrong
sources: {clicks: {topic: clicks, format: string}}
steps: {broken: SELECT valu FROM clicks}
sinks: {out: {from: broken, topic: never}}
"""
QUICK = {"spark.sql.shuffle.partitions": "2"}
# What is no click: not one JSON object of the schema.
UNREADABLE = (b"no click", b"", None, b'{"user": "\xff"}', b'{"user": "u"} and more')


def written(text: str, name: str) -> Path:
    path = HERE / name
    path.write_text(text.replace("@HERE@", str(HERE)))
    return path


def send(numbers: range) -> None:
    with Producer(bootstrap_servers=SERVERS) as producer:
        for number in numbers:
            user = None if number % 10 == 1 else f"u{number}"
            fields = {"user": user, "page": f"p{number % 3}", "at": f"2026-01-01T00:{number // 60:02}:{number % 60:02}"}
            value = json.dumps({**fields, "ms": 5000 if number % 10 == 2 else number})
            content = UNREADABLE[number // 10 % len(UNREADABLE)] if number % 10 == 3 else value.encode()
            producer.send("clicks", value=content, key=b"k\xff", headers=[("sent", b"%d" % number), ("none", None)])


def failure(run: object) -> str:
    try:
        run()  # type: ignore[operator]
    except (PipelineFailed, ForeignDirectory) as error:
        return str(error)
    return ""


def main() -> None:
    (HERE / "steps.py").write_text(STEPS)
    (HERE / "pages.csv").write_text("page,title\np0,zero\np1,one\np2,two\n")
    told: dict[str, object] = {}
    loaded = load(written(GOOD, "story.yml"), os.environ)
    plan = loaded.plan(SERVERS)
    send(range(100))
    with open_session("story", master="local[2]", settings=QUICK, log=HERE / "spark.log") as spark:
        wrong = load(written(WRONG, "wrong.yml"), os.environ).plan(SERVERS)
        told["wrong"] = failure(lambda: dry_run(wrong, spark))
        told["columns"] = dry_run(plan, spark)
        watch = loaded.watch(plan)
        run_triggered(plan, spark, watch, lambda seconds: bool(time.sleep(seconds)))
        told["run"] = {
            "flows": {name: [each.state, each.rows_in, each.rows_out] for name, each in watch.flows.items()},
            "rules": {f"{each.dataset}.{each.rule}": [each.action, each.broken] for each in watch.rules()},
            "behind": watch.total("behind"),
        }
        send(range(100, 200))
        watch = loaded.watch(plan)
        deadline = time.monotonic() + HANG_S

        def is_over(seconds: float) -> bool:
            time.sleep(seconds)
            rows = [each.rows_in for each in watch.flows.values()]
            return min(rows) >= 100 or time.monotonic() > deadline

        run_always(plan, spark, watch, is_over, None)
        told["always"] = {name: [each.state, each.rows_in] for name, each in watch.flows.items()}
        told["parts"] = sorted(row.ms for row in spark.read.parquet(str(HERE / "parts")).collect())
        told["partitions"] = sorted(path.name for path in (HERE / "parts").glob("page=*"))
        told["foreign"] = failure(lambda: refuse_foreign_directories(replace(plan, storage=str(HERE / "another"))))
        database = {"url": f"jdbc:derby:{HERE}/db", "dbtable": "clicks"}
        told["rows"] = sorted(row.ms for row in spark.read.format("jdbc").options(**database).load().collect())
        failing = load(written(FAILING, "failing.yml"), os.environ)
        failing_plan = failing.plan(SERVERS)
        told["failing"] = failure(
            lambda: run_triggered(
                failing_plan, spark, failing.watch(failing_plan), lambda seconds: bool(time.sleep(seconds))
            )
        )
    print(json.dumps(told))


main()
