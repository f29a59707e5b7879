"""Tokens for the session of this process: what `session()` does with spark.kafka.clusters.*.

    spark = session(settings={"spark.kafka.clusters.main.auth.bootstrap.servers": "kafka:9094", ...})
    hand_out_tokens(spark, {...})                       # the same for a session that was made in another way

1. What is given here stays in this process. What is in Spark's own configuration (spark-submit --conf) works too, but
   Spark sends its configuration to the executors and shows it in its UI: passwords belong here, or into a Kerberos
   ticket or a file that only the driver has.
2. One keeper for each process: asking again with the same clusters changes nothing, with others it begins anew.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.tokens.keeper import TokenKeeper

PREFIX: Final = "spark.kafka.clusters."

_keeper: TokenKeeper | None = None


def hand_out_tokens(spark: SparkSession, settings: Mapping[str, str] | None = None) -> None:
    """Ask for a token of every cluster that the settings, or Spark's configuration, name; nothing when none is."""
    known = {key: value for key, value in spark.sparkContext.getConf().getAll() if key.startswith(PREFIX)}
    wanted = {**known, **(settings or {})}
    if wanted:
        _keep_tokens(wanted)


def _keep_tokens(settings: Mapping[str, str]) -> None:
    # Loaded by who needs it: most jobs have no tokens.
    from pyspark import SparkFiles

    from ottla.spark.tokens.clusters import parse_clusters
    from ottla.spark.tokens.keeper import TokenKeeper

    clusters, directory = parse_clusters(settings), Path(SparkFiles.getRootDirectory())
    global _keeper  # one for each process, as there is one session
    if _keeper is not None and (_keeper.clusters, _keeper.directory) == (clusters, directory):
        return
    stop_handing_out()
    keeper = TokenKeeper(clusters, directory)
    keeper.start()
    _keeper = keeper
    atexit.register(keeper.stop)


def stop_handing_out() -> None:
    """End the tokens of this process."""
    global _keeper
    keeper, _keeper = _keeper, None
    if keeper is not None:
        atexit.unregister(keeper.stop)
        keeper.stop()
