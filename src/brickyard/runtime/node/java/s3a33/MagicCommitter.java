package brickyard;

import java.io.IOException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.commit.magic.MagicS3GuardCommitter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;

/**
 * S3A's magic committer of Hadoop 3.3, for jobs that write to one directory at once: each removes what is its own at its end. Hadoop's
 * removes `__magic` with the unfinished tasks of all others, which then commit without those rows and without an error (HADOOP-18797,
 * repaired in Hadoop 3.4.1).
 */
public final class MagicCommitter extends MagicS3GuardCommitter {
    public MagicCommitter(Path path, TaskAttemptContext context) throws IOException {
        super(path, context);
    }

    public void cleanupStagingDirs() {
        Path own = getJobAttemptPath(0); // named after the job, whatever the attempt
        try {
            FileSystem fs = getDestFS();
            fs.delete(own, true);
            fs.delete(own.getParent(), false); // S3A's empty directory. Refused while another job has files there
        } catch (IOException left) {
            // Readers ignore it, and no other job looks there.
        }
    }
}
