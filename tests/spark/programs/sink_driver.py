"""A streaming query from topic to topic with the faulty sink. Arguments: JSON, the faults; it ends when all is written.

{"servers": ..., "source": ..., "sink": ..., "checkpoint": ..., "per_batch": 100, "faults": [...]}
"""

from __future__ import annotations

import json
import os
import sys

from sink_copying import copy
from sink_faults import DRIVER, FAULTS, FaultySource

from ottla.spark import session


def main() -> None:
    plan = json.loads(sys.argv[1])
    os.environ[DRIVER] = str(os.getpid())
    os.environ[FAULTS] = json.dumps(plan["faults"])
    spark = session("sink-kills", master="local[2,4]", settings={"spark.ui.enabled": "false"})
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(FaultySource)
    copy(spark, plan, "ottla-faulty")
    spark.stop()


if __name__ == "__main__":
    main()
