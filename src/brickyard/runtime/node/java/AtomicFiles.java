package brickyard;

import java.io.IOException;
import org.apache.hadoop.fs.Path;

/** A file system that moves files in one step (AtomicMoves). Compiled as NodeFiles.java is. */
public interface AtomicFiles {
    /** Moves a file or directory. Unless `replace`, fails with FileAlreadyExistsException where the name is in use. */
    void move(Path from, Path to, boolean replace) throws IOException;

    /** Makes the directory in which a job's tasks write. Nothing else makes one: nobody would remove it. */
    boolean makeStage(Path stage) throws IOException;
}
