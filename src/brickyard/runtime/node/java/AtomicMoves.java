package brickyard;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.CopyOption;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileAttribute;
import java.util.UUID;
import org.apache.hadoop.fs.FileAlreadyExistsException;

/**
 * Moves and creations that are one step for everybody who looks: a name that must be new is given to one caller, however many ask for
 * it at once on however many nodes. Tables (Delta, Iceberg) and streaming checkpoints commit in this way. rename(2), which Java's and
 * Hadoop's own moves call, replaces an existing file instead. Compiled as NodeFiles.java is.
 */
final class AtomicMoves {
    private static final LinkOption[] NO_LINK = new LinkOption[] {LinkOption.NOFOLLOW_LINKS};
    private static final CopyOption[] IN_ONE_STEP = new CopyOption[] {StandardCopyOption.ATOMIC_MOVE};
    private static final CopyOption[] WHOLE = new CopyOption[] {StandardCopyOption.COPY_ATTRIBUTES, LinkOption.NOFOLLOW_LINKS};

    private AtomicMoves() {
    }

    /** Moves a file or directory, with `replace` also over a file or an empty directory. */
    static void move(File from, File to, boolean replace) throws IOException {
        if (!replace) {
            moveToNew(from, to);
            return;
        }
        try {
            Files.move(from.toPath(), to.toPath(), IN_ONE_STEP);
        } catch (NoSuchFileException missing) {
            throw missing(from, to);
        } catch (java.nio.file.AtomicMoveNotSupportedException elsewhere) {
            moveCopy(from, to, true);
        }
    }

    /**
     * What FileSystem.rename of Hadoop does, as HDFS does it: into an existing directory, never over an existing file, and false where
     * the name is in use. Missing parents are created, as the local file system of Hadoop does.
     */
    static boolean rename(File from, File to) throws IOException {
        File target = to.isDirectory() && !to.equals(from) ? new File(to, from.getName()) : to;
        if (target.equals(from)) {
            return from.exists();
        }
        if (target.toPath().startsWith(from.toPath())) {
            return false; // a directory cannot be moved into itself
        }
        target.getParentFile().mkdirs();
        try {
            moveToNew(from, target);
            return true;
        } catch (FileAlreadyExistsException taken) {
            return false;
        }
    }

    /** Creates an empty file, or fails with FileAlreadyExistsException. */
    static void create(File file) throws IOException {
        try {
            Files.createFile(file.toPath(), new FileAttribute[0]);
        } catch (java.nio.file.FileAlreadyExistsException taken) {
            throw new FileAlreadyExistsException("File already exists: " + file);
        } catch (NoSuchFileException missing) {
            throw new FileNotFoundException("The directory " + file.getParent() + " does not exist");
        }
    }

    private static void moveToNew(File from, File to) throws IOException {
        if (isDirectory(from)) {
            moveDirectory(from, to);
            return;
        }
        try {
            link(from, to);
        } catch (NoSuchFileException missing) {
            throw missing(from, to);
        } catch (FileSystemException unable) { // another mount, or a file that this user may not link to
            moveCopy(from, to, false);
            return;
        }
        Files.deleteIfExists(from.toPath()); // gone already: another caller has moved the same file at the same moment
    }

    /** Gives a file a second name. It fails if that exists, even if it was created a moment ago. */
    private static void link(File from, File to) throws IOException {
        try {
            Files.createLink(to.toPath(), from.toPath());
        } catch (java.nio.file.FileAlreadyExistsException taken) {
            // One file under both names: the process that moved it was killed before it removed the old one.
            if (isDirectory(to) || Files.isSymbolicLink(to.toPath()) || !Files.isSameFile(from.toPath(), to.toPath())) {
                throw new FileAlreadyExistsException("rename destination " + to + " already exists.");
            }
        } catch (UnsupportedOperationException unable) {
            throw new FileSystemException(to.getPath(), from.getPath(), "no hard links");
        }
    }

    /** rename(2) replaces nothing but an empty directory, of which nothing can be lost. */
    private static void moveDirectory(File from, File to) throws IOException {
        if (exists(to)) {
            throw new FileAlreadyExistsException("rename destination " + to + " already exists.");
        }
        try {
            Files.move(from.toPath(), to.toPath(), IN_ONE_STEP);
        } catch (NoSuchFileException missing) {
            throw missing(from, to);
        } catch (FileSystemException unable) {
            if (exists(to)) { // since a moment ago
                throw new FileAlreadyExistsException("rename destination " + to + " already exists.");
            }
            throw unable;
        }
    }

    /** From another mount: the copy gets its name in one step. */
    private static void moveCopy(File from, File to, boolean replace) throws IOException {
        File copy = new File(to.getParentFile(), "." + to.getName() + "." + UUID.randomUUID());
        try {
            Files.copy(from.toPath(), copy.toPath(), WHOLE);
            if (replace) {
                Files.move(copy.toPath(), to.toPath(), IN_ONE_STEP);
            } else {
                linkCopy(copy, to);
            }
        } catch (NoSuchFileException missing) {
            throw missing(from, to);
        } finally {
            Files.deleteIfExists(copy.toPath());
        }
        Files.deleteIfExists(from.toPath());
    }

    private static void linkCopy(File copy, File to) throws IOException {
        try {
            link(copy, to);
        } catch (FileSystemException unable) {
            throw new IOException(
                "Nothing was moved to " + to + ": its file system has no hard links, so a file there cannot be given a name that must be "
                + "new. Use a directory on another file system.", unable);
        }
    }

    private static FileNotFoundException missing(File from, File to) {
        File absent = exists(from) ? to.getParentFile() : from;
        return new FileNotFoundException("rename source " + from + " to " + to + ": " + absent + " not found.");
    }

    private static boolean exists(File file) {
        return Files.exists(file.toPath(), NO_LINK);
    }

    private static boolean isDirectory(File file) {
        return Files.isDirectory(file.toPath(), NO_LINK);
    }
}
