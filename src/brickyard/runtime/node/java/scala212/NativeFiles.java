package brickyard;

import org.apache.spark.sql.execution.datasources.FileIndex;
import scala.collection.Seq;

/** See NativeTreeIndex. */
final class NativeFiles extends NativeTreeIndex {
    NativeFiles(FileIndex of, NativeNames names) {
        super(of, names);
    }

    public Seq rootPaths() {
        return this.names.roots(this.of.rootPaths().iterator());
    }

    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
        return this.names.files(this.of.listFiles(partitionFilters, dataFilters).iterator());
    }
}
