package brickyard;

import java.io.File;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import scala.collection.Iterator;
import scala.collection.immutable.List;
import scala.collection.mutable.ListBuffer;

/** The names that this machine's own programs read, of files in the workspace's trees. */
final class NativeNames {
    private final Trees trees;

    NativeNames(Trees trees) {
        this.trees = trees;
    }

    /** Whether all of an index is in the trees. */
    boolean suit(FileIndex index) {
        Iterator each = index.rootPaths().iterator();
        boolean any = false;
        while (each.hasNext()) {
            any = true;
            if (real((Path) each.next()) == null) {
                return false;
            }
        }
        return any;
    }

    List roots(Iterator each) {
        ListBuffer found = new ListBuffer();
        while (each.hasNext()) {
            found.$plus$eq(real((Path) each.next()));
        }
        return found.toList();
    }

    List files(Iterator each) {
        ListBuffer found = new ListBuffer();
        while (each.hasNext()) {
            PartitionDirectory directory = (PartitionDirectory) each.next();
            ListBuffer files = new ListBuffer();
            Iterator file = directory.files().iterator();
            while (file.hasNext()) {
                FileStatusWithMetadata one = (FileStatusWithMetadata) file.next();
                files.$plus$eq(new FileStatusWithMetadata(named(one.fileStatus()), one.metadata()));
            }
            found.$plus$eq(new PartitionDirectory(directory.values(), files.toList()));
        }
        return found.toList();
    }

    private Path real(Path path) {
        String scheme = path.toUri().getScheme();
        String name = path.toUri().getPath();
        File file = "dbfs".equals(scheme) ? this.trees.ofDbfs(name) : "file".equals(scheme) ? this.trees.named(name) : null;
        return file == null ? null : new Path("file", "", file.getPath());
    }

    /** A partition may lie elsewhere: that file keeps its name. */
    private FileStatus named(FileStatus one) {
        Path path = real(one.getPath());
        return path == null ? one : new FileStatus(
            one.getLen(), one.isDirectory(), one.getReplication(), one.getBlockSize(), one.getModificationTime(), path);
    }
}
