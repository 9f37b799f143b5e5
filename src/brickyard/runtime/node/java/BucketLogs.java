package brickyard;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkConf;

/**
 * In the place of Delta Lake's log store for `s3a:/`, which knows of no other cluster: of two that commit at once, both are told that
 * they have, and one commit is gone. Delta Lake makes it by its name.
 */
public final class BucketLogs {
    public BucketLogs(SparkConf spark, Configuration conf) {
        throw new UnsupportedOperationException(
            "Delta tables in s3a:/ are not enabled: clusters that write to one table at once would lose commits. If at most one cluster "
            + "at a time writes to each table, set spark.delta.logStore.s3a.impl to io.delta.storage.S3SingleDriverLogStore in the "
            + "cluster's spark_conf. Tables in dbfs:/ and /Volumes need no such care.");
    }
}
