package brickyard;

import java.io.File;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.SecureDirectoryStream;
import java.nio.file.attribute.BasicFileAttributeView;
import java.nio.file.attribute.FileAttribute;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/**
 * Access to the workspace's files for finishing the work of another cluster's driver. All clusters can write there, and a record of
 * such work may be forged. So no link is followed, not even one that is created meanwhile: it could make this driver move or remove
 * files that only its own cluster sees. Compiled as NodeFiles.java is.
 */
final class CarefulFiles extends RawLocalFileSystem implements AtomicFiles {
    private static final LinkOption[] NO_LINK = new LinkOption[] {LinkOption.NOFOLLOW_LINKS};
    private static final int MAX_DEPTH = 200;
    private static final String DBFS = "fs.brickyard.dbfs.root";

    private final RawLocalFileSystem files;
    private final java.nio.file.Path root;

    CarefulFiles(Configuration conf) throws IOException {
        this.files = (RawLocalFileSystem) new Path("dbfs:/").getFileSystem(conf);
        this.root = new File(conf.get(DBFS)).toPath();
    }

    /** Whether the path, by its name alone, is one of the workspace's files. */
    boolean has(String text) {
        try {
            relative(new Path(text));
            return true;
        } catch (IOException elsewhere) {
            return false;
        } catch (IllegalArgumentException nonsense) {
            return false;
        }
    }

    private java.nio.file.Path relative(Path path) throws IOException {
        if ("dbfs".equals(path.toUri().getScheme())) {
            java.nio.file.Path found = this.files.pathToFile(path).toPath();
            if (found.equals(found.normalize()) && found.startsWith(this.root) && !found.equals(this.root)) {
                return this.root.relativize(found);
            }
        }
        throw new IOException(path + " is not one of the workspace's files.");
    }

    public boolean exists(Path path) throws IOException {
        java.nio.file.Path at = relative(path);
        SecureDirectoryStream parent = null;
        try {
            parent = open(at.getParent(), false);
            isDirectory(parent, at.getFileName());
            return true;
        } catch (NoSuchFileException missing) {
            return false;
        } finally {
            close(parent);
        }
    }

    public boolean mkdirs(Path path) throws IOException {
        close(open(relative(path), true));
        return true;
    }

    public boolean makeStage(Path stage) throws IOException {
        return mkdirs(stage);
    }

    public boolean rename(Path from, Path to) throws IOException {
        move(from, to, true);
        return true;
    }

    /** Replaces an existing file in any case: what records move has names that are never used twice. */
    public void move(Path from, Path to, boolean replace) throws IOException {
        java.nio.file.Path source = relative(from);
        java.nio.file.Path target = relative(to);
        SecureDirectoryStream here = open(source.getParent(), false);
        SecureDirectoryStream there = null;
        try {
            there = open(target.getParent(), true);
            here.move(source.getFileName(), there, target.getFileName());
        } finally {
            close(here);
            close(there);
        }
    }

    public boolean delete(Path path, boolean recursive) throws IOException {
        java.nio.file.Path at = relative(path);
        SecureDirectoryStream parent = null;
        try {
            parent = open(at.getParent(), false);
            remove(parent, at.getFileName(), recursive, 0);
            return true;
        } catch (NoSuchFileException missing) {
            return false;
        } finally {
            close(parent);
        }
    }

    /** Only their number. */
    public FileStatus[] listStatus(Path path) throws IOException {
        int count = 0;
        SecureDirectoryStream directory = open(relative(path), false);
        try {
            for (Iterator each = directory.iterator(); each.hasNext(); each.next()) {
                count++;
            }
        } finally {
            close(directory);
        }
        return new FileStatus[count];
    }

    private static void remove(SecureDirectoryStream parent, java.nio.file.Path name, boolean recursive, int depth) throws IOException {
        if (depth > MAX_DEPTH) {
            throw new IOException("The directories are too deep to be removed: " + name);
        }
        if (!isDirectory(parent, name)) {
            parent.deleteFile(name);
            return;
        }
        SecureDirectoryStream inner = (SecureDirectoryStream) parent.newDirectoryStream(name, NO_LINK);
        try {
            for (Iterator each = inner.iterator(); recursive && each.hasNext();) {
                remove(inner, ((java.nio.file.Path) each.next()).getFileName(), true, depth + 1);
            }
        } finally {
            close(inner);
        }
        parent.deleteDirectory(name);
    }

    private static boolean isDirectory(SecureDirectoryStream parent, java.nio.file.Path name) throws IOException {
        return ((BasicFileAttributeView) parent.getFileAttributeView(name, BasicFileAttributeView.class, NO_LINK))
            .readAttributes().isDirectory();
    }

    /** The directory at a path below the root (null: the root itself). With `make`, missing directories on the way are created. */
    private SecureDirectoryStream open(java.nio.file.Path path, boolean make) throws IOException {
        DirectoryStream top = Files.newDirectoryStream(this.root);
        if (!(top instanceof SecureDirectoryStream)) {
            top.close();
            throw new IOException("This system has no safe way to change the files that another cluster has left.");
        }
        SecureDirectoryStream at = (SecureDirectoryStream) top;
        for (int index = 0; path != null && index < path.getNameCount(); index++) {
            SecureDirectoryStream outer = at;
            try {
                if (make && isMissing(outer, path.getName(index))) {
                    Files.createDirectories(this.root.resolve(path.subpath(0, index + 1)), new FileAttribute[0]);
                }
                at = (SecureDirectoryStream) outer.newDirectoryStream(path.getName(index), NO_LINK);
            } finally {
                close(outer);
            }
        }
        return at;
    }

    private static boolean isMissing(SecureDirectoryStream parent, java.nio.file.Path name) throws IOException {
        try {
            isDirectory(parent, name);
            return false;
        } catch (NoSuchFileException missing) {
            return true;
        }
    }

    private static void close(SecureDirectoryStream stream) throws IOException {
        if (stream != null) {
            stream.close();
        }
    }
}
