package brickyard;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.OutputCommitter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitter;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitterFactory;
import org.apache.hadoop.util.VersionInfo;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.internal.io.FileNameSpec;
import org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol;

/**
 * How files that Spark's tasks write to `s3a:/` become rows: by S3A's magic committer, which uploads them and lets the driver complete
 * the uploads of one attempt of every task. No file is there before, and none is renamed, which in a bucket is a copy.
 *
 * What a write replaces goes once the new files are there, so a write that fails has removed nothing. In a bucket that is no single
 * step: a driver that is killed between the first upload and the last removal leaves some new files, or old ones beside them.
 *
 * Elsewhere it is Spark's own protocol. Compiled as NodeFiles.java is.
 */
public class BucketCommit extends SQLHadoopMapReduceCommitProtocol {
    private static final String SCHEME = "s3a";
    private static final String MAGIC = VersionInfo.getVersion().startsWith("3.3.") // s3a33/MagicCommitter.java says why
        ? "brickyard.MagicCommitter" : "org.apache.hadoop.fs.s3a.commit.magic.MagicS3GuardCommitter";
    private static final String DONE = "_SUCCESS";

    private final String path;
    private final boolean dynamic;
    private boolean bucket; // decided by the driver, before it sends copies of this object to the tasks

    private transient PathOutputCommitter committer;
    private transient Set replaced; // driver: directories of which an overwrite removes the files
    private transient boolean committed; // driver
    private transient Set parts; // task: the directories of the partitions that it writes

    public BucketCommit(String job, String path, boolean dynamic) {
        super(job, path, dynamic);
        this.path = path;
        this.dynamic = dynamic;
    }

    // ── the driver ────────────────────────────────────────────────────────────────────────────────────────────────────────

    public boolean deleteWithJob(FileSystem fs, Path given, boolean recursive) {
        if (!isBucket(fs.getConf(), this.path) || !isBucket(fs.getConf(), given.toString())) {
            return super.deleteWithJob(fs, given, recursive);
        }
        replaced().add(given.toString());
        return true;
    }

    public void setupJob(JobContext context) {
        this.bucket = isBucket(context.getConfiguration(), this.path);
        super.setupJob(context);
    }

    public OutputCommitter setupCommitter(TaskAttemptContext context) {
        if (!this.bucket) {
            return super.setupCommitter(context);
        }
        try {
            this.committer = PathOutputCommitterFactory.createCommitter(new Path(this.path), context);
        } catch (IOException error) {
            raise(error);
        }
        if (!this.committer.getClass().getName().equals(MAGIC)) {
            throw new IllegalArgumentException(
                this.committer.getClass().getName() + " cannot be used for " + this.path + ": of writes that fail or run at once it loses "
                + "rows in a bucket. Add the layer s3a to the cluster's spark.brickyard.layers, and leave out "
                + "spark.hadoop.fs.s3a.committer.name and spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a.");
        }
        return this.committer;
    }

    public void commitJob(JobContext context, scala.collection.Seq messages) {
        complete(context, messages);
    }

    /** The same for Scala 2.13, where Seq is another class. */
    public void commitJob(JobContext context, scala.collection.immutable.Seq messages) {
        complete(context, messages);
    }

    private void complete(JobContext context, scala.collection.Seq messages) {
        if (!this.bucket) {
            super.commitJob(context, messages.toList());
            return;
        }
        try {
            Set older = older(context.getConfiguration(), messages);
            this.committer.commitJob(context);
            this.committed = true;
            for (Iterator each = older.iterator(); each.hasNext();) {
                Path file = new Path((String) each.next());
                file.getFileSystem(context.getConfiguration()).delete(file, false);
            }
        } catch (Throwable error) {
            raise(error);
        }
    }

    public void abortJob(JobContext context) {
        if (!this.committed) {
            super.abortJob(context);
        }
    }

    /** Every file that the write replaces. */
    private Set older(Configuration conf, scala.collection.Seq messages) throws IOException {
        if (this.dynamic) {
            for (scala.collection.Iterator each = messages.iterator(); each.hasNext();) {
                replaced().addAll(Arrays.asList((Object[]) ((FileCommitProtocol.TaskCommitMessage) each.next()).obj()));
            }
        }
        Set found = new LinkedHashSet();
        for (Iterator each = replaced().iterator(); each.hasNext();) {
            Path given = new Path((String) each.next());
            collect(given.getFileSystem(conf), given, found);
        }
        found.remove(new Path(this.path, DONE).toString()); // the committer writes it anew
        return found;
    }

    private Set replaced() {
        if (this.replaced == null) {
            this.replaced = new LinkedHashSet();
        }
        return this.replaced;
    }

    // ── a task ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    public void setupTask(TaskAttemptContext context) {
        super.setupTask(context);
        this.parts = new LinkedHashSet();
    }

    public String newTaskTempFile(TaskAttemptContext context, scala.Option directory, FileNameSpec spec) {
        if (!this.bucket) {
            return super.newTaskTempFile(context, directory, spec);
        }
        Path parent = null;
        try {
            parent = this.committer.getWorkPath();
        } catch (IOException error) {
            raise(error);
        }
        if (directory.isDefined()) {
            String name = (String) directory.get();
            this.parts.add(new Path(this.path, name).toString());
            parent = new Path(parent, name);
        }
        return new Path(parent, getFilename(context, spec)).toString();
    }

    public String newTaskTempFileAbsPath(TaskAttemptContext context, String directory, FileNameSpec spec) {
        if (!this.bucket) {
            return super.newTaskTempFileAbsPath(context, directory, spec);
        }
        throw new IllegalArgumentException(
            "The partition in " + directory + " cannot be written in one job with those in " + this.path + ": insert into it alone.");
    }

    public FileCommitProtocol.TaskCommitMessage commitTask(TaskAttemptContext context) {
        FileCommitProtocol.TaskCommitMessage message = super.commitTask(context); // asks the driver whether this attempt may
        return this.bucket ? new FileCommitProtocol.TaskCommitMessage(this.parts.toArray()) : message;
    }

    // ── both ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

    private static boolean isBucket(Configuration conf, String place) {
        String scheme = new Path(place).toUri().getScheme();
        return SCHEME.equals(scheme == null ? FileSystem.getDefaultUri(conf).getScheme() : scheme);
    }

    /** Every file below `given`, without what other jobs are writing there. */
    static void collect(FileSystem fs, Path given, Set found) throws IOException {
        FileStatus[] all;
        try {
            all = fs.listStatus(given);
        } catch (FileNotFoundException gone) {
            return;
        }
        for (int index = 0; index < all.length; index++) {
            Path each = all[index].getPath();
            if (!all[index].isDirectory()) {
                found.add(each.toString());
            } else if (!each.getName().startsWith("_temporary") && !each.getName().startsWith("__magic")) {
                collect(fs, each, found);
            }
        }
    }

    /** Spark's methods declare no exceptions, Scala throws them all the same. */
    static void raise(Throwable error) {
        new scala.util.Failure(error).get();
    }
}
