package brickyard;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.internal.io.FileNameSpec;

/**
 * How files that Spark's tasks write become rows: all of a job's at once, or none, whatever is killed meanwhile.
 *
 * Each task attempt writes into a directory of its own below `_temporary-JOB`, which readers ignore, and tells the driver what it wrote.
 * The driver takes one attempt of every task. A job is committed when its record says what is moved where, and which older files go:
 * until then an overwrite has removed nothing. A driver that is killed later leaves the record, and the next one of its cluster, or
 * one of another cluster that uses a table, finishes the work.
 *
 * Spark's own way (Hadoop's committer) lets all jobs that write to one place share `_temporary`, so the first to end removes the
 * others' rows; it shows the files of a job one by one; and it empties a table before it is overwritten.
 *
 * For `dbfs:/` and `file:/`. DataLakeCommit is for `abfss:/` and `gs:/`. In `s3a:/` a rename copies, so there it is one of Hadoop's committers for object
 * stores (BucketCommit). Elsewhere it is Spark's own protocol. Compiled as NodeFiles.java is.
 */
public final class KeptCommit extends DataLakeCommit {
    private static final String RECORDS = "fs.brickyard.writes"; // directory of the records
    private static final String STAGE = "_temporary-";
    private static final String PARTED = "parted"; // in a record: directories of partitions that were not there before
    private static final String DONE = "_SUCCESS";
    private static final String SUFFIX = ".json";

    private final String job;
    private final String path;
    private final boolean dynamic;
    private boolean kept; // decided by the driver, before it sends copies of this object to the tasks
    private String records;

    private transient List replaced; // driver: what an overwrite removes when it commits
    private transient Set stages; // driver: every directory that holds staged files
    private transient boolean committed; // driver
    private transient String attempt; // task
    private transient List files; // task: a staged file, where it goes, the next one

    public KeptCommit(String job, String path, boolean dynamic) {
        super(job, path, dynamic);
        this.job = job;
        this.path = path;
        this.dynamic = dynamic;
    }

    // ── the driver ────────────────────────────────────────────────────────────────────────────────────────────────────────

    public boolean deleteWithJob(FileSystem fs, Path given, boolean recursive) {
        if (!ours(fs.getConf(), new Path(this.path)) || !ours(fs.getConf(), given)) {
            return super.deleteWithJob(fs, given, recursive);
        }
        replaced().add(given.toString());
        return true;
    }

    public void setupJob(JobContext context) {
        Configuration conf = context.getConfiguration();
        this.kept = ours(conf, new Path(this.path));
        if (!this.kept) {
            super.setupJob(context);
            return;
        }
        refuseCommitter(conf, "dbfs:/ and file:/");
        this.records = conf.get(RECORDS);
        this.stages = new LinkedHashSet();
        this.stages.add(stage(this.path));
        try {
            CommitRecords.write(this.records, this.job, false, begun());
            Path stage = new Path(stage(this.path));
            makeStage(conf, stage);
        } catch (Throwable error) {
            record().delete();
            raise(error);
        }
    }

    public void onTaskCommit(FileCommitProtocol.TaskCommitMessage message) {
        if (!this.kept) {
            super.onTaskCommit(message);
            return;
        }
        String[] pairs = (String[]) message.obj();
        for (int index = 0; index < pairs.length; index += 2) {
            this.stages.add(stageOf(pairs, index));
        }
    }

    public void commitJob(JobContext context, scala.collection.Seq messages) {
        commit(context, messages);
    }

    /** The same for Scala 2.13, where Seq is another class. */
    public void commitJob(JobContext context, scala.collection.immutable.Seq messages) {
        commit(context, messages);
    }

    private void commit(JobContext context, scala.collection.Seq messages) {
        if (!this.kept) {
            super.commitJob(context, messages.toList());
            return;
        }
        try {
            Configuration conf = context.getConfiguration();
            synchronized (KeptCommit.class) { // of two overwrites one comes after the other, and removes what that has written
                String place = new Path(this.path).toString();
                CommitRecords.committing(conf, place);
                try {
                    Map record = committing(conf, messages);
                    CommitRecords.write(this.records, this.job, true, record);
                    this.committed = true;
                    CommitRecords.finishOwn(conf, this.records, record(), record);
                } finally {
                    CommitRecords.committed(place);
                }
            }
            CommitRecords.removeStages(conf, null, this.stages); // a task that was still writing has found the record until now
        } catch (Throwable error) {
            raise(error);
        }
    }

    public void abortJob(JobContext context) {
        if (!this.kept) {
            super.abortJob(context);
            return;
        }
        if (this.committed) {
            return; // the next driver finishes it
        }
        record().delete(); // first: tasks that are still writing remove what they make when they see this
        try {
            CommitRecords.removeStages(context.getConfiguration(), null, this.stages);
        } catch (Throwable error) { // hidden, and the reason of the failure matters more
            return;
        }
    }

    /** What a commit does, as its record says it. Whatever can fail for want of room is done here, before the record is written. */
    private Map committing(Configuration conf, scala.collection.Seq messages) throws IOException {
        List moves = new ArrayList();
        Set parents = new LinkedHashSet();
        for (scala.collection.Iterator each = messages.iterator(); each.hasNext();) {
            String[] pairs = (String[]) ((FileCommitProtocol.TaskCommitMessage) each.next()).obj();
            for (int index = 0; index < pairs.length; index += 2) {
                Path staged = new Path(pairs[index]);
                if (!staged.getFileSystem(conf).exists(staged)) {
                    throw new FileNotFoundException("The file " + staged + " that a task wrote is gone.");
                }
                moves.add(Arrays.asList(new Object[] {pairs[index], pairs[index + 1]}));
                parents.add(new Path(pairs[index + 1]).getParent().toString());
            }
        }
        if (this.dynamic) {
            replaced().addAll(parents);
        }
        Set removed = new LinkedHashSet();
        for (int index = 0; index < replaced().size(); index++) {
            Path given = new Path((String) replaced().get(index));
            collect(given.getFileSystem(conf), given, removed);
        }
        List parted = new ArrayList();
        for (java.util.Iterator each = parents.iterator(); each.hasNext();) {
            Path parent = new Path((String) each.next());
            if (parent.getName().indexOf('=') > 0 && !parent.getFileSystem(conf).exists(parent)) {
                parted.add(parent.toString());
            }
            if (!parent.getFileSystem(conf).mkdirs(parent)) {
                throw new IOException("The directory " + parent + " cannot be made.");
            }
        }
        if (conf.getBoolean("mapreduce.fileoutputcommitter.marksuccessfuljobs", true)) {
            Path mark = new Path(stage(this.path), DONE);
            mark.getFileSystem(conf).create(mark, true).close();
            moves.add(Arrays.asList(new Object[] {mark.toString(), new Path(this.path, DONE).toString()}));
            removed.remove(new Path(this.path, DONE).toString());
        }
        Map record = begun();
        record.put("path", new Path(this.path).toString());
        record.put(PARTED, parted);
        record.put("remove", new ArrayList(removed));
        record.put("move", moves);
        return record;
    }

    private Map begun() {
        Map record = new LinkedHashMap();
        record.put("stages", new ArrayList(this.stages));
        return record;
    }

    private List replaced() {
        if (this.replaced == null) {
            this.replaced = new ArrayList();
        }
        return this.replaced;
    }

    // ── a task ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    public void setupTask(TaskAttemptContext context) {
        if (!this.kept) {
            super.setupTask(context);
            return;
        }
        this.attempt = context.getTaskAttemptID().toString();
        this.files = new ArrayList();
    }

    public String newTaskTempFile(TaskAttemptContext context, scala.Option directory, FileNameSpec spec) {
        if (!this.kept) {
            return super.newTaskTempFile(context, directory, spec);
        }
        String name = getFilename(context, spec);
        return stagedIn(this.path, directory.isDefined() ? directory.get() + "/" + name : name);
    }

    /** Below the directory that it is for, so that moving it is a rename also where that is in another file system. */
    public String newTaskTempFileAbsPath(TaskAttemptContext context, String directory, FileNameSpec spec) {
        if (!this.kept) {
            return super.newTaskTempFileAbsPath(context, directory, spec);
        }
        if (!ours(context.getConfiguration(), new Path(directory))) {
            throw new IllegalArgumentException(
                "The partition in " + directory + " cannot be written in one job with those in " + this.path
                + ": insert into it alone.");
        }
        try {
            Path stage = new Path(stage(directory));
            makeStage(context.getConfiguration(), stage);
            if (!record().exists()) { // the job is over, and may not know of this stage
                stage.getFileSystem(context.getConfiguration()).delete(stage, true);
                throw new IOException("The job is over for which this task would write to " + directory);
            }
        } catch (IOException error) {
            raise(error);
        }
        return stagedIn(directory, getFilename(context, spec));
    }

    private String stagedIn(String top, String name) {
        String staged = new Path(stage(top) + "/" + this.attempt, name).toString();
        this.files.add(staged);
        this.files.add(new Path(top, name).toString());
        return staged;
    }

    public FileCommitProtocol.TaskCommitMessage commitTask(TaskAttemptContext context) {
        if (!this.kept) {
            return super.commitTask(context);
        }
        return new FileCommitProtocol.TaskCommitMessage(this.files.toArray(new String[this.files.size()]));
    }

    public void abortTask(TaskAttemptContext context) {
        if (!this.kept) {
            super.abortTask(context);
            return;
        }
        try {
            for (int index = 0; index < this.files.size(); index += 2) {
                Path staged = new Path((String) this.files.get(index));
                staged.getFileSystem(context.getConfiguration()).delete(staged, false);
            }
            if (!record().exists()) { // the job is over: it could not remove what this task has made since
                Set mine = new LinkedHashSet();
                for (int index = 0; index < this.files.size(); index += 2) {
                    mine.add(stageOf((String[]) this.files.toArray(new String[this.files.size()]), index));
                }
                CommitRecords.removeStages(context.getConfiguration(), null, mine);
            }
        } catch (Throwable error) {
            return; // hidden, and the reason of the failure matters more
        }
    }

    // ── both ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

    private static boolean ours(Configuration conf, Path given) {
        String scheme = given.toUri().getScheme();
        if (scheme == null) {
            scheme = FileSystem.getDefaultUri(conf).getScheme();
        }
        return (scheme.equals("dbfs") || scheme.equals("file")) && !conf.get(RECORDS, "").isEmpty();
    }

    private String stage(String top) {
        return new Path(top, STAGE + this.job).toString();
    }

    private static void makeStage(Configuration conf, Path stage) throws IOException {
        if (!((AtomicFiles) stage.getFileSystem(conf)).makeStage(stage)) {
            throw new IOException("The directory " + stage + " cannot be made.");
        }
    }

    /** Where the file at `index` of a task's pairs is staged: below the place that is written to, or below a partition elsewhere. */
    private String stageOf(String[] pairs, int index) {
        String own = stage(this.path);
        return pairs[index].startsWith(own + "/") ? own : stage(new Path(pairs[index + 1]).getParent().toString());
    }

    private File record() {
        return new File(this.records, this.job + SUFFIX);
    }
}
