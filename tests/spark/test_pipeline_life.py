"""A pipeline with real Spark and a real broker: it is run once, and then all the time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ottla import Admin, Consumer, NewTopic, TopicPartition
from ottla.testing import KafkaBroker

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

PROGRAM = Path(__file__).parent / "programs" / "pipeline_story.py"
LIMIT_S = 900


def records(servers, topic):
    """All committed records of a topic."""
    found = []
    with Consumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        end = consumer.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
        while consumer.position(TopicPartition(topic, 0)) < end:
            found += consumer.poll(1.0)
    return found


def test_a_pipeline_goes_on_where_it_was_and_bad_records_are_told_apart(broker: KafkaBroker, tmp_path: Path) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 1) for name in ("clicks", "shouted", "dead", "never")])
    command = [sys.executable, str(PROGRAM), str(tmp_path), broker.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    log = tmp_path / "spark.log"
    assert done.returncode == 0, done.stderr[-3000:] + (log.read_text()[-2000:] if log.exists() else "")
    told = json.loads(done.stdout.splitlines()[-1])

    # Of 100 events: 10 without a user, 10 slow, 10 that are no JSON; 70 pass.
    passed = [number for number in range(200) if number % 10 not in (1, 2, 3)]
    assert told["run"]["rules"] == {
        "clicks.readable": ["dead_letter", 10],
        "clicks.has_user": ["dead_letter", 10],
        "clicks.is_quick": ["drop", 10],
        "shouted.is_known": ["dead_letter", sum(number % 3 == 2 for number in passed if number < 100)],
    }
    assert {name: state for name, (state, *_) in told["run"]["flows"].items()} == dict.fromkeys(
        ("records", "parts", "rows", "clicks__dead", "shouted__dead"), "completed"
    )
    assert told["run"]["behind"] == 0
    assert all(tuple(each) == ("stopped", 100) for each in told["always"].values()), "it has read what came since"

    shouted = records(broker.bootstrap_servers, "shouted")
    assert Counter(int(record.key) for record in shouted) == Counter(n for n in passed if n % 3 != 2), "each once"
    first = json.loads(shouted[0].value)
    assert first["title"] in ("ZERO!", "ONE!"), "a function of the pipeline's file ran in Spark's Python"
    assert not [name for name in first if name.startswith("_")]
    assert dict(shouted[0].headers)["page"].decode() == first["page"]
    assert told["parts"] == passed
    assert told["rows"] == passed
    assert "parts has batches up to" in told["foreign"], "another storage would write nothing there"
    assert told["partitions"] == ["page=p0", "page=p1", "page=p2"]

    dead = records(broker.bootstrap_servers, "dead")
    by_rule = Counter(dict(record.headers)["ottla.dead.rule"].decode() for record in dead)
    assert by_rule == {"readable": 20, "has_user": 20, "is_known": sum(n % 3 == 2 for n in passed)}
    unreadable = [record for record in dead if dict(record.headers)["ottla.dead.rule"] == b"readable"]
    first = unreadable[0]
    headers = {name: value.decode() for name, value in first.headers if name.startswith("ottla.")}
    assert (first.key, first.value) == (b"k\xff", b"no click"), "byte for byte as it was"
    assert headers["ottla.dead.topic"] == "clicks"
    assert int(headers["ottla.dead.offset"]) % 10 == 3
    assert (headers["ottla.dead.pipeline"], headers["ottla.dead.step"]) == ("story", "clicks")
    own = [("sent", headers["ottla.dead.offset"].encode()), ("none", None)]
    assert [tuple(each) for each in first.headers[:2]] == own, "its own headers"
    assert Counter((record.value, dict(record.headers)["ottla.dead.reason"]) for record in unreadable) == {
        (b"no click", b"the value is no json of the schema"): 4,
        (b"", b"the value is empty"): 4,
        (None, b"the value is null"): 4,
        (b'{"user": "\xff"}', b"the value is no text in UTF-8"): 4,
        (b'{"user": "u"} and more', b"there is text behind the JSON object"): 4,
    }

    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert admin.list_consumer_group_offsets("story")[TopicPartition("clicks", 0)].offset == 200, "lag tools see it"
    assert told["columns"]["pages"] == "page string, title string"
    assert told["columns"]["titled"].startswith("page string, user string, at timestamp, ms int, _key string, _topic")
    assert "broken" in told["wrong"]
    assert "valu" in told["wrong"]
    assert "breaks the rule is_short of clicks" in told["failing"]
