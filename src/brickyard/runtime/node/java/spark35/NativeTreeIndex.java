package brickyard;

import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.types.StructType;

/**
 * The files of another index in the workspace's trees, by the names that this machine's own programs read. NativeFiles has the rest,
 * because Scala 2.12 and 2.13 have another Seq.
 */
public abstract class NativeTreeIndex implements FileIndex {
    protected final FileIndex of;
    protected final NativeNames names;

    protected NativeTreeIndex(FileIndex of, NativeNames names) {
        this.of = of;
        this.names = names;
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
        return other instanceof NativeTreeIndex && this.of.equals(((NativeTreeIndex) other).of);
    }

    public int hashCode() {
        return this.of.hashCode();
    }

    public String toString() {
        return "NativeFiles(" + this.of + ")";
    }
}
