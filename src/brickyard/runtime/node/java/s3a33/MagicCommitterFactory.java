package brickyard;

import java.io.IOException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory;
import org.apache.hadoop.fs.s3a.commit.magic.MagicS3GuardCommitter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitter;

/** Gives MagicCommitter to jobs that ask for the magic committer, and to others what they ask for. */
public final class MagicCommitterFactory extends S3ACommitterFactory {
    public PathOutputCommitter createTaskCommitter(S3AFileSystem fs, Path path, TaskAttemptContext context) throws IOException {
        PathOutputCommitter committer = super.createTaskCommitter(fs, path, context);
        return committer instanceof MagicS3GuardCommitter ? new MagicCommitter(path, context) : committer;
    }
}
