"""What the tests of object stores run on clusters; `top` is where the code writes."""

WRITES = """
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
place = top + "/t"
rows = lambda start, end: spark.range(start, end, 1, 4)
parted = lambda frame: frame.selectExpr("id", "id % 4 as k")
count = lambda where: [spark.read.parquet(where).count(), spark.read.parquet(where).distinct().count()]
rows(0, 1000).write.parquet(place)
rows(1000, 1500).write.mode("append").parquet(place)
found = [count(place)]
rows(0, 700).write.mode("overwrite").option("partitionOverwriteMode", "static").parquet(place)
found.append(count(place))
parted(rows(0, 400)).write.partitionBy("k").parquet(place + "p")
parted(rows(0, 40)).where("k < 2").write.mode("overwrite").partitionBy("k").parquet(place + "p")
found.append(count(place + "p"))
spark.sql(f"create table outside (id bigint, k bigint) using parquet partitioned by (k) location '{place}q'")
spark.sql("insert into outside select id, id % 2 from range(100)")
spark.sql("insert overwrite outside partition (k = 1) select id from range(7)")
spark.sql("insert into outside select id, 5 from range(3)")
found.append([spark.table("outside").count(), spark.table("main.default.outside").where("k = 1").count()])
java = sc._jvm.org.apache.hadoop
fs = java.fs.Path(top).getFileSystem(sc._jsc.hadoopConfiguration())
names = [each.getPath().getName() for name in ("t", "tp", "tq") for each in fs.listStatus(java.fs.Path(f"{top}/{name}"))]
print(json.dumps([*found, sorted(name for name in names if name.startswith("_"))]))
"""
SLOW = """
import time
from pyspark.sql.functions import udf
@udf("bigint")
def slow(value):
    time.sleep(0.2)
    return value
spark.range(0, 200, 1, 8).select(slow("id").alias("id")).write.mode("overwrite").parquet(top + "/t")
"""
COUNTED = """
rows = spark.read.parquet(top + "/t")
print(json.dumps([rows.count(), rows.distinct().count()]))
"""
BEGUN = "spark.range(0, 700).write.mode('overwrite').parquet(top + '/t')\n"
ATTEMPT = """
refused = []
def attempt(work):
    try:
        work()
        refused.append("done")
    except Exception as error:
        refused.append(str(error))
"""
FAILING = """
from pyspark.sql.functions import udf
@udf("bigint")
def breaking(value):
    assert value != 150
    return value
broken = spark.range(0, 200, 1, 4).select(breaking("id").alias("id")).write
attempt(lambda: broken.mode("append").parquet(top + "/t"))
attempt(lambda: broken.mode("overwrite").parquet(top + "/t"))
print(json.dumps(refused))
"""
UNFINISHED = """
many = spark.range(0, 200, 1, 8).write
attempt(lambda: many.mode("append").parquet(top + "/t"))
attempt(lambda: many.mode("overwrite").parquet(top + "/t"))
print(json.dumps(refused))
"""
TOGETHER = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda n: spark.range(n * 100, n * 100 + 100, 1, 2).write.mode("append").parquet(top + "/together"), range(12)))
rows = spark.read.parquet(top + "/together")
print(json.dumps([rows.count(), rows.distinct().count()]))
"""
APPENDS = """
for number in range(3):
    spark.range(FIRST + number * 10, FIRST + number * 10 + 10, 1, 1).write.format("delta").mode("append").save(top + "/delta")
"""
TABLE = """
spark.range(0, 1, 1, 1).write.format("delta").save(top + "/delta")
print("1")
"""
RESULT = """
rows = spark.read.format("delta").load(top + "/delta")
versions = [each.version for each in spark.sql(f"describe history delta.`{top}/delta`").collect()]
print(json.dumps([rows.count(), rows.distinct().count(), sorted(versions)]))
"""
RACE = """
from concurrent.futures import ThreadPoolExecutor
jvm = sc._jvm
conf = sc._jsc.hadoopConfiguration()
store = jvm.io.delta.storage.STORE(conf)
path = lambda version: jvm.org.apache.hadoop.fs.Path(f"{top}/race/_delta_log/{version:020}.json")
path(0).getFileSystem(conf).mkdirs(path(0).getParent())
def commit(writer, version):
    lines = jvm.java.util.ArrayList()
    lines.add(str(writer))
    try:
        store.write(path(version), lines.iterator(), False, conf)
        return [str(writer)]
    except Exception as error:
        # The second, of Azure's: answers to the creation of its own file were lost, and it has not begun to commit.
        assert "FileAlreadyExistsException" in str(error) or "single writer semantics" in str(error), error
        return []
with ThreadPoolExecutor(8) as pool:
    won = [sum(pool.map(lambda writer: commit(writer, version), range(8)), []) for version in range(25)]
print(json.dumps([won, [[store.read(path(version), conf).next()] for version in range(25)]]))
"""
