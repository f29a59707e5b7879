"""Options that make a df.write in foreachBatch exactly once: by the id of the query, and the number of the batch.

    def write(rows, batch_id):
        rows.write.format("ottla").options(**servers, topic="totals", **once(rows, batch_id, "totals")) \\
            .mode("append").save()

1. The id of a query is that of its checkpoint. A query that is started again on it has the same; a new checkpoint has
   another and begins with batch 0 without being taken for a repetition.
2. One name for one write: a function that writes twice needs two.
3. With Spark Connect the function runs on the server, where a query does not tell its id; then the options are to be
   written out, with a jobName that is new for every checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.errors import OttlaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID: Final = "sql.streaming.queryId"


class NoQuery(OttlaError):
    """These rows are not those of a foreachBatch, or Spark Connect hides the query. Write jobName and batchId out:
    a jobName that is new for every checkpoint, and the batch_id of foreachBatch."""


def once(rows: DataFrame, batch_id: int, name: str) -> dict[str, str]:
    """The options jobName and batchId for one write of one batch; call it in the function of foreachBatch."""
    try:
        query_id: Any = rows.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    except Exception as error:  # Spark Connect has no context, and says so with an error of its own
        raise NoQuery(name) from error
    if not query_id:
        raise NoQuery(name)
    return {"jobName": f"{name}-{query_id}", "batchId": str(batch_id)}
