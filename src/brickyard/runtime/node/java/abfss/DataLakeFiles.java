package brickyard;

import java.io.IOException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem;

/**
 * `abfs:/` and `abfss:/`, both by TLS unless fs.azure.always.use.https says otherwise. In accounts without a hierarchical namespace
 * nothing is renamed: Delta Lake's commits are renames, and there one could be lost, or done twice. Compiled with the layer's JAR.
 */
public final class DataLakeFiles extends AzureBlobFileSystem {
    public boolean rename(Path from, Path to) throws IOException {
        DataLakeCommit.refuseFlat(this, to);
        return super.rename(from, to);
    }
}
