package brickyard;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.iceberg.exceptions.RuntimeIOException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;

/**
 * The files of Iceberg tables: in dbfs:/, or in an object store. A table's metadata names its files by their full paths, and any
 * cluster may have written it. So none of them may be one that only this cluster sees, and no link is followed to remove one.
 * Compiled as NodeFiles.java is, where the runtime has Iceberg.
 */
public final class IcebergFiles extends HadoopFileIO {
    private transient CarefulFiles careful;

    public IcebergFiles() {
        super(); // to be deserialized
    }

    IcebergFiles(Configuration conf) {
        super(conf);
    }

    public InputFile newInputFile(String path) {
        checked(path);
        return super.newInputFile(path);
    }

    public InputFile newInputFile(String path, long length) {
        checked(path);
        return super.newInputFile(path, length);
    }

    public OutputFile newOutputFile(String path) {
        checked(path);
        return super.newOutputFile(path);
    }

    public void deleteFile(String path) {
        if (checked(path)) {
            remove(path, false);
        } else {
            super.deleteFile(path);
        }
    }

    public void deletePrefix(String prefix) {
        if (checked(prefix)) {
            remove(prefix, true);
        } else {
            super.deletePrefix(prefix);
        }
    }

    public void deleteFiles(Iterable paths) {
        for (java.util.Iterator each = paths.iterator(); each.hasNext();) {
            deleteFile((String) each.next());
        }
    }

    public Iterable listPrefix(String prefix) {
        checked(prefix);
        return super.listPrefix(prefix);
    }

    /** Whether the path is in dbfs:/; otherwise it is in an object store, or refused. */
    private boolean checked(String path) {
        try {
            Path full = qualified(path);
            if (careful().has(full.toString())) {
                return true;
            }
            String scheme = full.toUri().getScheme();
            if (!scheme.equals("dbfs") && !scheme.equalsIgnoreCase("file")) {
                return false;
            }
        } catch (IOException error) {
            throw new RuntimeIOException(error);
        }
        throw new ValidationException(
            "The files of Iceberg tables must be in dbfs:/, outside /Volumes and /Workspace, or in an object store: " + path, new Object[0]);
    }

    private void remove(String path, boolean recursive) {
        try {
            careful().delete(qualified(path), recursive);
        } catch (IOException error) {
            throw new RuntimeIOException(error, "Cannot remove " + path, new Object[0]);
        }
    }

    private Path qualified(String path) {
        return new Path(path).makeQualified(FileSystem.getDefaultUri(conf()), new Path("/"));
    }

    private synchronized CarefulFiles careful() throws IOException {
        if (this.careful == null) {
            this.careful = new CarefulFiles(conf());
        }
        return this.careful;
    }
}
