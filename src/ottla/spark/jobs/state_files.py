"""Small texts that a job keeps beside its data, on whatever file system Spark writes to.

Spark itself reads and writes them, so that they are where the data is: with a cluster or Spark Connect the disk of
this process is another one. A text that is replaced is written as a whole directory, which Spark moves into its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_state(spark: SparkSession, path: str) -> str | None:
    """The text that was written there last; None when there is none."""
    from pyspark.errors import AnalysisException

    try:
        rows = spark.read.text(path, wholetext=True).collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return None
    return rows[0][0].rstrip("\n") if rows else None


def write_state(spark: SparkSession, path: str, text: str) -> None:
    spark.createDataFrame([(text,)], "value string").coalesce(1).write.mode("overwrite").text(path)
