"""Settings that newer clients of Spark Connect ask for, under names that Spark 4.0 does not know: without a value,
`createDataFrame` of databricks-connect 17.3 fails. The values are Spark 4.1's own."""

from __future__ import annotations

CLIENTS = {
    "spark.sql.session.localRelationChunkSizeRows": "10000",
    "spark.sql.session.localRelationChunkSizeBytes": str(16 << 20),
}
