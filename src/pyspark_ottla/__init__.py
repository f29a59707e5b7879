"""Where Spark looks for data sources: every top-level module named pyspark_* that has a DefaultSource.

This is what makes spark.read.format("ottla") work without a registration. It must stay light: a pyspark_* module that
fails to import makes Spark pass over all Python sources.
"""

from ottla.spark.datasource import OttlaSource as DefaultSource

__all__ = ["DefaultSource"]
