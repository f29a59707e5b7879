"""Where Spark finds format("ottla-doctor"): tasks that report the Python they run in (ottla/spark/doctor/source.py).

It must stay light: a pyspark_* module that fails to import makes Spark pass over all Python sources.
"""

from ottla.spark.doctor.source import DoctorSource as DefaultSource

__all__ = ["DefaultSource"]
