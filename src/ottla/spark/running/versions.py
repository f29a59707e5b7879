"""Which versions of PySpark can do what: batch queries from 4.0 on, streams from 4.2 on.

Spark 4.2 gave Python sources what our streams need: the end of a batch under a limit, runs that end with what there is,
and writers for Arrow. On 4.0 and 4.1 a stream is refused with a sentence, before it begins.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.errors import OttlaError

STREAMS_SINCE: Final = (4, 2)


class SparkTooOld(OttlaError):
    """This PySpark has no interface for streams of a Python source as ours. Take PySpark 4.2 or later for
    readStream and writeStream; spark.read and df.write work with 4.0 and 4.1 too, and so does foreachBatch."""

    invalid_configuration = True


def has_streams(version: str | None = None) -> bool:
    """Whether format("ottla") can be a stream with that version of PySpark; the installed one, if none is named."""
    if version is None:
        from pyspark import __version__ as version
    return tuple(int(each) for each in re.findall(r"\d+", str(version))[:2]) >= STREAMS_SINCE


def ensure_streams() -> None:
    """Raise SparkTooOld where there are none."""
    if not has_streams():
        from pyspark import __version__

        raise SparkTooOld(f"this is PySpark {__version__}")
