"""The work that a training cluster does (see train.py): `start.py train-work classic DIRECTORY` or `... connect URL`."""

from __future__ import annotations

import sys


def classic(directory: str) -> None:
    """Uses files, a join, an aggregation, SQL, an RDD and Python functions, as a notebook would."""
    from pyspark.sql import functions as f

    from ..kernel.attach import attach

    spark = attach()
    facts = (
        spark.range(0, 20000, 1, 4).withColumn("k", f.col("id") % 10).withColumn("v", f.rand(1)).withColumn("s", f.lit("text"))
    )
    facts.write.mode("overwrite").parquet(f"{directory}/facts.parquet")
    facts.limit(100).coalesce(1).write.mode("overwrite").option("header", True).csv(f"{directory}/facts.csv")
    spark.read.option("header", True).option("inferSchema", True).csv(f"{directory}/facts.csv").count()
    names = spark.createDataFrame([(number, f"name {number}") for number in range(10)], ["k", "name"])
    read = spark.read.parquet(f"{directory}/facts.parquet")
    read.join(names, "k").groupBy("name").agg(f.count("*").alias("n"), f.avg("v")).orderBy(f.desc("n"))._jdf.showString(
        5, 20, False
    )
    read.createOrReplaceTempView("facts")
    spark.sql("SELECT k, sum(v) OVER (PARTITION BY k ORDER BY id) AS s FROM facts WHERE v > 0.5 LIMIT 5").collect()
    plus = f.udf(lambda value: value + 1, "long")
    read.select(plus("id").alias("n")).agg(f.sum("n")).collect()
    spark.sparkContext.parallelize(range(100), 4).map(lambda value: (value % 3, value)).reduceByKey(lambda a, b: a + b).collect()
    read.limit(10).toPandas()
    read.cache().count()


def connect(url: str) -> None:
    """Does similar work from a Spark Connect client."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    spark = SparkSession.builder.remote(url).getOrCreate()
    frame = spark.range(1000).withColumn("k", f.col("id") % 7)
    frame.groupBy("k").agg(f.sum("id")).orderBy("k").collect()
    spark.sql("SELECT 1 AS one").collect()
    frame.select(f.udf(lambda value: value + 1, "long")("id")).collect()
    spark.createDataFrame([(1, "a")], ["n", "s"]).collect()
    spark.stop()


def main() -> None:
    {"classic": classic, "connect": connect}[sys.argv[1]](sys.argv[2])
