package brickyard;

import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/** The files of another index in the workspace's trees, by the names that this machine's own programs read. */
final class NativeFiles implements FileIndex {
    private final FileIndex of;
    private final NativeNames names;

    NativeFiles(FileIndex of, NativeNames names) {
        this.of = of;
        this.names = names;
    }

    public Seq rootPaths() {
        return this.names.roots(this.of.rootPaths().iterator());
    }

    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
        return this.names.files(this.of.listFiles(partitionFilters, dataFilters).iterator());
    }

    public String[] inputFiles() {
        return this.of.inputFiles();
    }

    public void refresh() {
        this.of.refresh();
    }

    public long sizeInBytes() {
        return this.of.sizeInBytes();
    }

    public StructType partitionSchema() {
        return this.of.partitionSchema();
    }

    public scala.Option metadataOpsTimeNs() {
        return this.of.metadataOpsTimeNs();
    }

    public boolean equals(Object other) {
        return other instanceof NativeFiles && this.of.equals(((NativeFiles) other).of);
    }

    public int hashCode() {
        return this.of.hashCode();
    }

    public String toString() {
        return "NativeFiles(" + this.of + ")";
    }
}
