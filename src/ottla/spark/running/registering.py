"""Registers a source with the interpreter that is right on the driver and on executors (interpreters.py).

spark.dataSource.register() takes PYSPARK_PYTHON for a source, which is that of executors, and then plans with it on the
driver, too. Sources that Spark finds by itself have PYSPARK_DRIVER_PYTHON; this gives it to the others.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ottla.spark.running.interpreters import DRIVER_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """As spark.dataSource.register; with Spark Connect exactly that, because the server decides."""
    context: Any = getattr(spark, "_sc", None)
    if context is None:
        spark.dataSource.register(source)
        return
    before = context.pythonExec
    context.pythonExec = os.environ.get(DRIVER_VARIABLE) or before
    try:
        spark.dataSource.register(source)
    finally:
        context.pythonExec = before
