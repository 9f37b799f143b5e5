package brickyard;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.internal.io.FileNameSpec;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How files that Spark's tasks write to `abfs:/`, `abfss:/` and `gs:/` become rows: Azure's hierarchical namespaces and Google Cloud
 * Storage rename a file in one step, and never over another.
 *
 * Each task attempt writes into a directory of its own below `_temporary-JOB`, which readers ignore, and tells the driver what it wrote.
 * The driver takes one attempt of every task, and moves its files to where they belong, then what the job replaces out of the way. If
 * one of these moves fails, it takes all of them back. A driver that is killed meanwhile leaves some of the new files, or older ones
 * beside them.
 *
 * Hadoop's committer for these stores, ManifestCommitter, removes the `_temporary` that all jobs share which write to one place: the
 * first to end takes the rows of the others along.
 *
 * Elsewhere it is BucketCommit. Compiled as NodeFiles.java is.
 */
public class DataLakeCommit extends BucketCommit {
    private static final Logger LOG = LoggerFactory.getLogger(DataLakeCommit.class);
    private static final String RECORDS = "fs.brickyard.writes"; // there is a metastore, and locks
    private static final String STEADY = "fs.capability.etags.preserved.in.rename"; // of hierarchical namespaces alone
    private static final String STAGE = "_temporary-";
    private static final String REPLACED = "replaced";
    private static final String DONE = "_SUCCESS";
    private static final String COMMITTER = "spark.sql.sources.outputCommitterClass";
    private static final String STANDARD = "org.apache.parquet.hadoop.ParquetOutputCommitter";
    private static final int THREADS = 16; // a move is a request or two
    private static final int TRIES = 3;

    private final String job;
    private final String path;
    private final boolean dynamic;
    private boolean lake; // decided by the driver, before it sends copies of this object to the tasks

    private transient Set replaced; // driver: directories of which an overwrite removes the files
    private transient boolean committed; // driver
    private transient String attempt; // task
    private transient List files; // task: where its files belong, below the job's path

    public DataLakeCommit(String job, String path, boolean dynamic) {
        super(job, path, dynamic);
        this.job = job;
        this.path = path;
        this.dynamic = dynamic;
    }

    // ── the driver ────────────────────────────────────────────────────────────────────────────────────────────────────────

    public boolean deleteWithJob(FileSystem fs, Path given, boolean recursive) {
        if (!isLake(fs.getConf(), this.path) || !isLake(fs.getConf(), given.toString())) {
            return super.deleteWithJob(fs, given, recursive);
        }
        replaced().add(given.toString());
        return true;
    }

    public void setupJob(JobContext context) {
        Configuration conf = context.getConfiguration();
        this.lake = isLake(conf, this.path);
        if (!this.lake) {
            super.setupJob(context);
            return;
        }
        refuseCommitter(conf, "abfs:/, abfss:/ and gs:/");
        try {
            FileSystem fs = fs(conf);
            if (!fs.getScheme().equals("gs")) {
                refuseFlat(fs, new Path(this.path));
            }
            fs.mkdirs(stage());
        } catch (IOException error) {
            raise(error);
        }
    }

    public void commitJob(JobContext context, scala.collection.Seq messages) {
        put(context, messages);
    }

    /** The same for Scala 2.13, where Seq is another class. */
    public void commitJob(JobContext context, scala.collection.immutable.Seq messages) {
        put(context, messages);
    }

    private void put(JobContext context, scala.collection.Seq messages) {
        if (!this.lake) {
            super.commitJob(context, messages.toList());
            return;
        }
        Configuration conf = context.getConfiguration();
        boolean locked = !conf.get(RECORDS, "").isEmpty();
        try {
            if (locked) { // of two overwrites one comes after the other, and removes what that has written
                CommitRecords.committing(conf, new Path(this.path).toString());
            }
            try {
                putFiles(conf, messages);
            } finally {
                if (locked) {
                    CommitRecords.committed(new Path(this.path).toString());
                }
            }
        } catch (Throwable error) {
            raise(error);
        }
        removeStage(conf);
    }

    private void putFiles(Configuration conf, scala.collection.Seq messages) throws IOException {
        FileSystem fs = fs(conf);
        List moves = new ArrayList();
        Set parents = new LinkedHashSet();
        for (scala.collection.Iterator each = messages.iterator(); each.hasNext();) {
            String[] told = (String[]) ((FileCommitProtocol.TaskCommitMessage) each.next()).obj();
            for (int index = 1; index < told.length; index++) {
                Path file = new Path(this.path, told[index]);
                moves.add(new Move(fs, new Path(new Path(stage(), told[0]), told[index]), file));
                parents.add(file.getParent().toString());
            }
        }
        if (this.dynamic) {
            replaced().addAll(parents);
        }
        Set older = new LinkedHashSet();
        for (Iterator each = replaced().iterator(); each.hasNext();) {
            Path given = new Path((String) each.next());
            collect(given.getFileSystem(conf), given, older);
        }
        older.remove(new Path(this.path, DONE).toString()); // it is written anew
        List removals = new ArrayList();
        Path aside = new Path(stage(), REPLACED);
        for (Iterator each = older.iterator(); each.hasNext();) {
            removals.add(new Move(fs, new Path((String) each.next()), new Path(aside, String.valueOf(removals.size()))));
        }
        parents.add(aside.toString());
        for (Iterator each = parents.iterator(); each.hasNext();) {
            fs.mkdirs(new Path((String) each.next()));
        }
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        try {
            try {
                all(pool, moves);
                all(pool, removals);
                if (conf.getBoolean("mapreduce.fileoutputcommitter.marksuccessfuljobs", true)) {
                    fs.create(new Path(this.path, DONE), true).close();
                }
                this.committed = true;
            } catch (Throwable error) {
                takeBack(pool, removals, error);
                takeBack(pool, moves, error);
                raise(error);
            }
        } finally {
            pool.shutdown();
        }
        Set emptied = new LinkedHashSet();
        for (Iterator each = older.iterator(); each.hasNext();) {
            emptied.add(new Path((String) each.next()).getParent().toString());
        }
        emptied.removeAll(parents);
        for (Iterator each = emptied.iterator(); each.hasNext();) {
            Path directory = new Path((String) each.next());
            try {
                CommitRecords.removeEmpty(fs, directory, new Path(this.path).toString());
            } catch (IOException error) { // the job is committed
                LOG.warn("The empty directory " + directory + " cannot be removed", error);
            }
        }
    }

    /** Waits for every one of them, whatever happens: nothing may be moved after that has been taken back. */
    private static void all(ExecutorService pool, List moves) {
        List futures = new ArrayList();
        for (int index = 0; index < moves.size(); index++) {
            futures.add(pool.submit((Callable) moves.get(index)));
        }
        Throwable failed = null;
        boolean interrupted = false;
        for (int index = 0; index < futures.size();) {
            try {
                ((Future) futures.get(index)).get();
                index++;
            } catch (InterruptedException later) {
                interrupted = true;
            } catch (ExecutionException error) {
                failed = error.getCause();
                index++;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        if (failed != null) {
            raise(failed);
        }
    }

    /** Also moves that seem to have failed: the answer may be what was lost. A move that was not made cannot be undone, which is no error. */
    private void takeBack(ExecutorService pool, List moves, Throwable error) {
        List back = new ArrayList();
        for (int index = 0; index < moves.size(); index++) {
            back.add(((Move) moves.get(index)).back());
        }
        try {
            all(pool, back);
        } catch (Throwable another) {
            error.addSuppressed(new IOException("The write to " + this.path + " has failed, and not all of its files could be taken back: "
                + "there may be rows of it, and rows that it replaces. Overwrite them.", another));
        }
    }

    public void abortJob(JobContext context) {
        if (!this.lake) {
            super.abortJob(context);
        } else if (!this.committed) {
            removeStage(context.getConfiguration());
        }
    }

    /** Hidden, if that fails: what the job did matters more. Not while it has files that an overwrite could not take back. */
    private void removeStage(Configuration conf) {
        try {
            FileSystem fs = fs(conf);
            Path aside = new Path(stage(), REPLACED);
            if (this.committed || !fs.exists(aside) || fs.listStatus(aside).length == 0) {
                fs.delete(stage(), true);
            }
        } catch (Throwable error) {
            LOG.warn("The directory " + stage() + " cannot be removed", error);
        }
    }

    private Set replaced() {
        if (this.replaced == null) {
            this.replaced = new LinkedHashSet();
        }
        return this.replaced;
    }

    // ── a task ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    public void setupTask(TaskAttemptContext context) {
        if (!this.lake) {
            super.setupTask(context);
            return;
        }
        this.attempt = context.getTaskAttemptID().toString();
        this.files = new ArrayList();
    }

    public String newTaskTempFile(TaskAttemptContext context, scala.Option directory, FileNameSpec spec) {
        if (!this.lake) {
            return super.newTaskTempFile(context, directory, spec);
        }
        String name = getFilename(context, spec);
        String file = directory.isDefined() ? directory.get() + "/" + name : name;
        this.files.add(file);
        return new Path(new Path(stage(), this.attempt), file).toString();
    }

    public String newTaskTempFileAbsPath(TaskAttemptContext context, String directory, FileNameSpec spec) {
        if (!this.lake) {
            return super.newTaskTempFileAbsPath(context, directory, spec);
        }
        throw new IllegalArgumentException(
            "The partition in " + directory + " cannot be written in one job with those in " + this.path + ": insert into it alone.");
    }

    /** The attempt's directory, and its files. */
    public FileCommitProtocol.TaskCommitMessage commitTask(TaskAttemptContext context) {
        if (!this.lake) {
            return super.commitTask(context);
        }
        List told = new ArrayList(this.files);
        told.add(0, this.attempt);
        return new FileCommitProtocol.TaskCommitMessage(told.toArray(new String[told.size()]));
    }

    public void abortTask(TaskAttemptContext context) {
        if (!this.lake) {
            super.abortTask(context);
            return;
        }
        try {
            fs(context.getConfiguration()).delete(new Path(stage(), this.attempt), true);
        } catch (Throwable error) { // hidden, and the reason of the failure matters more
            return;
        }
    }

    // ── both ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

    private static boolean isLake(Configuration conf, String place) {
        String scheme = new Path(place).toUri().getScheme();
        scheme = scheme == null ? FileSystem.getDefaultUri(conf).getScheme() : scheme;
        return "abfss".equals(scheme) || "abfs".equals(scheme) || "gs".equals(scheme);
    }

    static void refuseFlat(FileSystem fs, Path path) throws IOException {
        if (!fs.hasPathCapability(path, STEADY)) {
            throw new IOException(
                "The storage account of " + path + " has no hierarchical namespace, so it cannot rename a file in one step, and writes "
                + "that fail could leave rows or lose them. Use an account with a hierarchical namespace, or write to dbfs:/.");
        }
    }

    static void refuseCommitter(Configuration conf, String places) {
        String committer = conf.get(COMMITTER, STANDARD);
        if (!committer.equals(STANDARD)) {
            throw new IllegalArgumentException(
                committer + " cannot be used as output committer here: files in " + places + " are committed by brickyard.KeptCommit. "
                + "Remove the setting, or set spark.sql.sources.commitProtocolClass to "
                + "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol in the cluster's spark_conf.");
        }
    }

    private FileSystem fs(Configuration conf) throws IOException {
        return new Path(this.path).getFileSystem(conf);
    }

    private Path stage() {
        return new Path(this.path, STAGE + this.job);
    }

    /** A file on its way, and the way back. No one else moves it. */
    private static final class Move implements Callable {
        private final FileSystem fs;
        private final Path from;
        private final Path to;
        private final boolean needed;

        Move(FileSystem fs, Path from, Path to) {
            this(fs, from, to, true);
        }

        private Move(FileSystem fs, Path from, Path to, boolean needed) {
            this.fs = fs;
            this.from = from;
            this.to = to;
            this.needed = needed;
        }

        Move back() {
            return new Move(this.fs, this.to, this.from, false);
        }

        public Object call() throws IOException {
            IOException failure = null;
            for (int tries = 0; tries < TRIES; tries++) {
                try {
                    // The answer to a move that was made may be lost. The connector of gs:/ sends it again then, and the second one fails.
                    if (this.fs.rename(this.from, this.to)
                            || (!this.fs.exists(this.from) && (!this.needed || this.fs.exists(this.to)))) {
                        return null;
                    }
                } catch (IOException error) {
                    failure = error;
                }
            }
            throw new IOException("The file " + this.from + " cannot be moved to " + this.to + ".", failure);
        }
    }
}
