"""The project that `ottla pipeline init` writes: click events, a window, a dead-letter topic, exactly-once output."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

PIPELINE: Final = """\
# Clicks are counted per page and minute. What is no click goes to a topic of its own, with the reason.
# All words: ottla pipeline words
name: @NAME@
bootstrap: ${OTTLA_BOOTSTRAP_SERVERS:-localhost:9092}

sources:
  clicks:
    topic: @NAME@-events
    format: json
    schema: user STRING, page STRING, at TIMESTAMP, milliseconds INT
    group: @NAME@                       # ottla group describe @NAME@: how far the pipeline is
    watermark: {column: at, delay: 10 seconds}
    expect:
      has_user: user IS NOT NULL        # else it is a dead letter
      is_quick: {condition: milliseconds < 10000, action: drop}
  pages:
    files: pages.csv
    format: csv
    static: true                        # read whole: a table to join with
    options: {header: true}

steps:
  named: |
    SELECT clicks.*, coalesce(pages.title, '?') AS title
    FROM clicks LEFT JOIN pages ON clicks.page = pages.page
  per_minute: |
    SELECT window.start AS minute, title, count(*) AS clicks, max(milliseconds) AS slowest
    FROM named GROUP BY window(at, '1 minute'), title
  slow: {python: "steps.py:slow"}

sinks:
  counts:                               # exactly once
    from: per_minute
    topic: @NAME@-counts
    partitions: 2
    key: title
  slow_files: {from: slow, files: slow}

dead_letters: {topic: @NAME@-dead, partitions: 1}
"""
STEPS: Final = '''\
"""Steps in Python: parameters are named as the sources and steps of the pipeline, and are DataFrames."""

from pyspark.sql import functions as F


def slow(named):
    return named.where(F.col("milliseconds") >= 5_000).select("user", "title", "at", "milliseconds", "_offset")
'''
PAGES: Final = "page,title\n/,Start\n/prices,Prices\n/docs,Documentation\n"
GENERATE: Final = '''\
"""Click events of the last minutes: python generate.py [HOW MANY]. One in fifty is no good one."""

import json
import os
import random
import sys
from datetime import UTC, datetime, timedelta

from ottla import Admin, NewTopic, Producer

TOPIC = "@NAME@-events"
HOW_MANY = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
SERVERS = os.environ.get("OTTLA_BOOTSTRAP_SERVERS", "localhost:9092")
BETWEEN = timedelta(milliseconds=30)
PAGES = ["/", "/prices", "/docs", "/secret"]


def click(number, begin):
    at = begin + number * BETWEEN
    user = f"user-{random.randrange(500)}" if number % 100 else None
    fields = {"user": user, "page": random.choice(PAGES), "at": at.isoformat(timespec="milliseconds")}
    return json.dumps({**fields, "milliseconds": random.randrange(12_000)})


with Admin(bootstrap_servers=SERVERS) as admin:
    if TOPIC not in admin.list_topics():
        admin.create_topics([NewTopic(TOPIC, 2)])
begin = datetime.now(UTC).replace(tzinfo=None) - HOW_MANY * BETWEEN
with Producer(bootstrap_servers=SERVERS) as producer:
    for number in range(HOW_MANY):
        value = "this is no click" if number % 100 == 50 else click(number, begin)
        producer.send(TOPIC, value=value.encode(), key=str(number).encode())
print(f"{HOW_MANY} events are in {TOPIC} at {SERVERS}")
'''
TESTS: Final = """\
# ottla pipeline test: records in, rows expected; on real Spark, without a broker.
tests:
  a minute is counted when it is over:
    given:
      clicks:
        - {value: {user: ada, page: /, at: 2026-01-01T00:00:05Z, milliseconds: 7}}
        - {value: {user: bob, page: /, at: 2026-01-01T00:00:50Z, milliseconds: 9}}
        - {value: {user: eve, page: /docs, at: 2026-01-01T00:02:00Z, milliseconds: 7000}}   # ends the first minute
    expect:
      counts: [{key: Start, value: {minute: 2026-01-01T00:00:00Z, title: Start, clicks: 2, slowest: 9}}]
      slow_files: [{user: eve, title: Documentation}]
  what is no click is a dead letter:
    given:
      clicks:
        - {value: this is no click, key: k1}
        - {value: {page: /, at: 2026-01-01T00:00:05Z, milliseconds: 7}}
        - {value: {user: ada, page: /, at: 2026-01-01T00:00:05Z, milliseconds: 20000}}
    expect:
      named: []
      dead_letters: [{rule: readable, key: k1, value: this is no click}, {rule: has_user, offset: 1}]
"""
COMMANDS: Final = {
    "ottla broker start": "in another terminal, when there is no Kafka yet",
    "python generate.py": "makes the topic @NAME@-events, and 10,000 click events",
    "ottla pipeline dry-run": "what it is, and whether Spark agrees",
    "ottla pipeline test": "the tests in tests/: records in, rows expected",
    "ottla pipeline run": "what is there now; run it again for what has come since",
    "ottla consume @NAME@-counts -o beginning -e": "the counted minutes",
    "ottla consume @NAME@-dead -o beginning -e": "with the reason in the headers",
    "ottla pipeline run --continuous": "until Ctrl-C",
}
README: Final = """\
# @NAME@

@COMMANDS@

A minute is counted when it is over: when a click has come that is ten seconds (the watermark) later than its end.
Clicks of minutes that are counted already are left out; the column LATE tells of them.
"""
FILES: Final = {
    "pipeline.yml": PIPELINE,
    "steps.py": STEPS,
    "pages.csv": PAGES,
    "generate.py": GENERATE,
    "tests/clicks.yml": TESTS,
    "README.md": README,
}


def write_example(directory: Path, name: str) -> list[Path]:
    """Write the project; FileExistsError when one of its files is there already."""
    directory.mkdir(parents=True, exist_ok=True)
    for file_name in FILES:
        if (directory / file_name).exists():
            raise FileExistsError(f"{directory / file_name} is there already")
    commands = "\n".join(f"    {line}" for line in _lines(name))
    written = []
    for file_name, text in FILES.items():
        (directory / file_name).parent.mkdir(exist_ok=True)
        (directory / file_name).write_text(text.replace("@COMMANDS@", commands).replace("@NAME@", name))
        written.append(directory / file_name)
    return written


def next_commands(directory: Path, name: str) -> list[str]:
    """What to type after the project was written, each with what it does."""
    return [f"cd {shlex.quote(str(directory))}", *_lines(name)]


def _lines(name: str) -> list[str]:
    commands = {
        command.replace("@NAME@", name): meaning.replace("@NAME@", name) for command, meaning in COMMANDS.items()
    }
    width = max(map(len, commands))
    return [f"{command:<{width}}  # {meaning}" for command, meaning in commands.items()]
