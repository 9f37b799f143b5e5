package brickyard;

import java.io.File;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/** The files of another index in the workspace's trees, by the names that this machine's own programs read. */
final class NativeFiles implements FileIndex {
    private final FileIndex of;
    private final Trees trees;

    NativeFiles(FileIndex of, Trees trees) {
        this.of = of;
        this.trees = trees;
    }

    /** Whether all of an index is in the trees. */
    static boolean suit(FileIndex index, Trees trees) {
        Iterator each = index.rootPaths().iterator();
        boolean any = false;
        while (each.hasNext()) {
            any = true;
            if (real((Path) each.next(), trees) == null) {
                return false;
            }
        }
        return any;
    }

    private static Path real(Path path, Trees trees) {
        String scheme = path.toUri().getScheme();
        String name = path.toUri().getPath();
        File file = "dbfs".equals(scheme) ? trees.ofDbfs(name) : "file".equals(scheme) ? trees.named(name) : null;
        return file == null ? null : new Path("file", "", file.getPath());
    }

    public Seq rootPaths() {
        ListBuffer found = new ListBuffer();
        Iterator each = this.of.rootPaths().iterator();
        while (each.hasNext()) {
            found.addOne(real((Path) each.next(), this.trees));
        }
        return found.toList();
    }

    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
        ListBuffer found = new ListBuffer();
        Iterator each = this.of.listFiles(partitionFilters, dataFilters).iterator();
        while (each.hasNext()) {
            PartitionDirectory directory = (PartitionDirectory) each.next();
            ListBuffer files = new ListBuffer();
            Iterator file = directory.files().iterator();
            while (file.hasNext()) {
                FileStatusWithMetadata one = (FileStatusWithMetadata) file.next();
                files.addOne(new FileStatusWithMetadata(named(one.fileStatus()), one.metadata()));
            }
            found.addOne(new PartitionDirectory(directory.values(), files.toList()));
        }
        return found.toList();
    }

    /** A partition may lie elsewhere: that file keeps its name. */
    private FileStatus named(FileStatus one) {
        Path path = real(one.getPath(), this.trees);
        return path == null ? one : new FileStatus(
            one.getLen(), one.isDirectory(), one.getReplication(), one.getBlockSize(), one.getModificationTime(), path);
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
