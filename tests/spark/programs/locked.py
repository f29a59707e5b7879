"""Spark at a locked broker: both connectors write and read as each user. The answer is JSON, by connector and login.

    python locked.py < {"java options": ..., "users": [{"login", "topics", "others", "group", "options"}]}

The options come on stdin, because arguments are shown to everybody. One session does all of it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.conformance.kafka_jars import find_jars

from ottla.spark import session

CONNECTORS = ("kafka", "ottla")  # the JVM's, and ours
RECORDS = 10


def main() -> None:
    task = json.load(sys.stdin)
    jars = ",".join(str(jar) for jar in find_jars("spark-4.3", "spark").glob("*.jar"))
    settings = {"spark.jars": jars, "spark.driver.extraJavaOptions": task["java options"]}
    spark = session("locked", master="local[2]", settings=settings, quiet=True)
    found = {name: {user["login"]: visit(spark, name, user) for user in task["users"]} for name in CONNECTORS}
    sys.stdout.write(json.dumps(found) + "\n")


def visit(spark: Any, connector: str, user: dict[str, Any]) -> dict[str, object]:
    """What was written to the user's own topic as it is read again, and what is said about the topic of others."""
    topic, others = user["topics"][connector], user["others"]
    try:
        write(spark, connector, user, topic)
    except Exception as error:
        return {"failed": str(error)}  # the other users have their turn, too
    return {
        "read": values(spark, connector, user, topic),
        "write others": refusal(lambda: write(spark, connector, user, others)),
        "read others": refusal(lambda: values(spark, connector, user, others)),
    }


def write(spark: Any, connector: str, user: dict[str, Any], topic: str) -> None:
    rows = spark.range(RECORDS, numPartitions=1).selectExpr("concat('value ', id) as value")
    what = {"topic": topic, "transactionalIdPrefix": user["group"]}
    rows.write.format(connector).options(**user["options"], **what).mode("append").save()


def values(spark: Any, connector: str, user: dict[str, Any], topic: str) -> list[str]:
    what = {"subscribe": topic, "startingOffsets": "earliest", "groupIdPrefix": user["group"]}
    rows = spark.read.format(connector).options(**user["options"], **what).load()
    return sorted(row.value for row in rows.selectExpr("cast(value as string) as value").collect())


def refusal(action: Any) -> str:
    try:
        action()
    except Exception as error:
        return "refused" if says_so(str(error)) else str(error)
    return "allowed"


def says_so(words: str) -> bool:
    """Whether an error, or one that it came from, is about rights."""
    return any(each in words for each in ("TopicAuthorization", "GroupAuthorization", "Not authorized"))


if __name__ == "__main__":
    main()
