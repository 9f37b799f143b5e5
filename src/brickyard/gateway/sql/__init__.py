"""SQL on a cluster for Databricks' SQL clients: their Thrift protocol over HTTP, answered through the driver's Spark Connect."""
