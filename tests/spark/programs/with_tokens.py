"""A whole job with a password on its driver, and everything that Spark shows of it: event log, UI, checkpoint, files.

python with_tokens.py DIRECTORY < {"password": ..., "servers": ..., "more": {...}, "tokens": FILE}    # on stdin:
arguments are shown, too. `more` are further settings of the cluster; the tokens of the job are noted in FILE.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path

from ottla import Admin
from ottla.spark import session

REST = "api/v1/applications/{id}/"
UI = (
    *(REST + each for each in ("environment", "sql?details=true", "executors", "executors/driver/threads", "jobs")),
    *("environment/", "SQL/", "executors/", "executors/threadDump/?executorId=driver", "StreamingQuery/", "jobs/"),
)


def main(directory: Path) -> None:
    given = json.load(sys.stdin)
    servers = {"kafka.bootstrap.servers": given["servers"]}
    cluster = {
        "auth.bootstrap.servers": given["servers"],
        "security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": given["password"],
        **given["more"],
    }
    spark = session(
        "with-tokens",
        master="local[2]",
        settings={
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (directory / "events").as_uri(),
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
            "spark.local.dir": str(directory / "local"),
            "spark.sql.shuffle.partitions": "1",
            **{f"spark.kafka.clusters.main.{name}": value for name, value in cluster.items()},
        },
    )
    rows = spark.range(3).selectExpr("cast(id as string) as value")
    rows.write.format("ottla").options(**servers, topic="numbers").mode("append").save()
    stream = spark.readStream.format("ottla").options(**servers, subscribe="numbers", startingOffsets="earliest").load()
    writer = stream.selectExpr("value").writeStream.format("ottla").options(**servers, topic="copied")
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    stream.explain(extended=True)
    Path(given["tokens"]).write_text(json.dumps(tokens_of(given)))
    keep_ui(spark.sparkContext.uiWebUrl, spark.sparkContext.applicationId, directory / "ui")
    spark.stop()
    print("done")


def tokens_of(given: dict[str, str]) -> list[str]:
    """The HMACs of all tokens, in hex."""
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": given["password"]}
    with Admin({"bootstrap.servers": given["servers"], "security.protocol": "SASL_PLAINTEXT", **login}) as admin:
        return [each.hmac.hex() for each in admin.describe_delegation_tokens(timeout=60)]


def keep_ui(url: str | None, application: str, directory: Path) -> None:
    assert url is not None, "the UI was asked for"
    directory.mkdir()
    for number, path in enumerate(UI):
        with urllib.request.urlopen(f"{url}/{path.format(id=application)}", timeout=60) as answer:
            (directory / str(number)).write_bytes(answer.read())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
