package brickyard;

import com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem;
import java.io.ByteArrayOutputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.Arrays;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * `gs:/`. A commit of a Delta table is the creation of an object that must not be there. If its answer is lost, or the creation is
 * sent again, it can seem to have failed: the writer would commit a second time. So what is there then is compared with what was
 * written: no two commits are equal, for each has the number of its transaction.
 *
 * A file is there when it is closed, and not before: the connector would make an object of its beginning for each `hflush`, which Parquet
 * calls at each end, and compose it with the rest. Compiled with the layer's JAR.
 */
public final class CloudStorageFiles extends GoogleHadoopFileSystem {
    private static final String COMMIT = ".*/_delta_log/[0-9]{20}\\.json";

    public FSDataOutputStream create(
            Path file, FsPermission permission, boolean overwrite, int buffer, short copies, long block, Progressable progress)
            throws IOException {
        if (overwrite || !file.toUri().getPath().matches(COMMIT)) {
            return new FSDataOutputStream(
                new Whole(super.create(file, permission, overwrite, buffer, copies, block, progress)), this.statistics);
        }
        return new FSDataOutputStream(new Commit(this, file, permission), this.statistics);
    }

    FSDataOutputStream createNow(Path file, FsPermission permission) throws IOException {
        return super.create(file, permission, false, 4096, (short) 1, getDefaultBlockSize(file), null);
    }

    /** A stream that is not Syncable. */
    private static final class Whole extends FilterOutputStream {
        Whole(OutputStream out) {
            super(out);
        }

        public void write(byte[] bytes, int start, int length) throws IOException {
            this.out.write(bytes, start, length);
        }

        public void close() throws IOException {
            this.out.close(); // flushes, and fails once
        }
    }

    private static final class Commit extends ByteArrayOutputStream {
        private final CloudStorageFiles fs;
        private final Path file;
        private final FsPermission permission;
        private boolean closed;

        Commit(CloudStorageFiles fs, Path file, FsPermission permission) {
            this.fs = fs;
            this.file = file;
            this.permission = permission;
        }

        public void close() throws IOException {
            if (this.closed) {
                return;
            }
            this.closed = true;
            try {
                FSDataOutputStream out = this.fs.createNow(this.file, this.permission);
                try {
                    out.write(toByteArray());
                } finally {
                    out.close();
                }
            } catch (IOException error) {
                if (!isThere()) {
                    throw error;
                }
            }
        }

        /** Raises an error if that cannot be said: then it is not known whether the commit was made. */
        private boolean isThere() throws IOException {
            if (!this.fs.exists(this.file)) {
                return false;
            }
            byte[] found = new byte[(int) Math.min(this.fs.getFileStatus(this.file).getLen(), (long) size() + 1)];
            FSDataInputStream in = this.fs.open(this.file);
            try {
                in.readFully(0L, found);
            } finally {
                in.close();
            }
            return Arrays.equals(found, toByteArray());
        }
    }
}
