package brickyard;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.EnumSet;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.Syncable;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/*
 * The file systems that Spark uses on a node: `dbfs:/` for the workspace's files, which every node sees, and `file:/` for the
 * node's own. Both show the workspace's files at `/dbfs`, `/Volumes` and `/Workspace`.
 *
 * Compiled for each runtime (compile_classes.py) with the compiler that Spark uses for its queries (Janino), which has no generics.
 */

/** Hadoop settings that name the directories of this node. */
final class Places {
    static final String DBFS = "fs.brickyard.dbfs.root"; // directories with the workspace's files
    static final String VOLUMES = "fs.brickyard.volumes.root";
    static final String WORKSPACE = "fs.brickyard.workspace.root";
    static final String FULL = "fs.brickyard.full"; // file that exists while the workspace's files take more than they may
    static final String TEMPORARY = "fs.brickyard.temporary"; // Java's directory for temporary files on the driver
    static final String SCRATCH = "fs.brickyard.scratch"; // a directory that all nodes see, for temporary files that they share
    static final String SHARED = "fs.brickyard.shared"; // directories that file:/ may write to, ":" between them; "": everywhere
}

/** Where the workspace's files really are on this node. Programs and users name other paths. */
final class Trees {
    private static final String[] NAMES = {"/dbfs", "/Volumes", "/Workspace"};
    private static final String[] SETTINGS = {Places.DBFS, Places.VOLUMES, Places.WORKSPACE};

    private final String[] roots = new String[NAMES.length];

    Trees(Configuration conf) {
        for (int index = 0; index < NAMES.length; index++) {
            this.roots[index] = conf.get(SETTINGS[index], NAMES[index]);
        }
    }

    /** The file for a path below one of the trees, or null for any other path. */
    File named(String path) {
        for (int index = 0; index < NAMES.length; index++) {
            if (within(path, NAMES[index])) {
                return new File(this.roots[index] + path.substring(NAMES[index].length()));
            }
        }
        return null;
    }

    /** The file for a path of `dbfs:/`, where `/dbfs/x` is another name of `/x`. */
    File ofDbfs(String path) {
        File file = named(path);
        return file != null ? file : new File(this.roots[0] + path);
    }

    /** Whether a file is one of the workspace's. */
    boolean hold(File file) {
        for (int index = 0; index < NAMES.length; index++) {
            if (within(file.getPath(), this.roots[index])) {
                return true;
            }
        }
        return false;
    }

    static boolean within(String name, String top) {
        return !top.isEmpty() && (name.equals(top) || name.startsWith(top + "/"));
    }

    /** A file's status with the path that the program named, since Spark looks up listed files by that path. */
    static FileStatus status(File file, Path named, long block) throws IOException {
        PosixFileAttributes found;
        try {
            found = (PosixFileAttributes) Files.readAttributes(
                file.toPath(), PosixFileAttributes.class, new java.nio.file.LinkOption[0]);
        } catch (java.nio.file.FileSystemException missing) {
            if (file.exists()) {
                throw missing;
            }
            throw new FileNotFoundException("File " + named + " does not exist");
        }
        return new FileStatus(
            found.isDirectory() ? 0L : found.size(), found.isDirectory(), 1, block,
            found.lastModifiedTime().toMillis(), found.lastAccessTime().toMillis(),
            new FsPermission(mode(found)), found.owner().getName(), found.group().getName(), named);
    }

    private static short mode(PosixFileAttributes found) {
        String text = PosixFilePermissions.toString(found.permissions());
        int bits = 0;
        for (int index = 0; index < 9; index++) {
            bits = bits * 2 + (text.charAt(index) == '-' ? 0 : 1);
        }
        return (short) bits;
    }
}

/** Refuses to add to the workspace's files while they take more than they may. What exists can be read, renamed and deleted. */
final class Quota {
    private static final String EMPTY = "_SUCCESS"; // a commit ends with this file, which takes nothing

    private final Trees trees;
    private final File full;

    Quota(Configuration conf) {
        String name = conf.get(Places.FULL, "");
        this.trees = new Trees(conf);
        this.full = name.isEmpty() ? null : new File(name);
    }

    boolean counts(File file) {
        return this.full != null && this.trees.hold(file);
    }

    void checkCreate(File file) throws IOException {
        if (counts(file) && !EMPTY.equals(file.getName())) {
            checkWrite(file);
        }
    }

    /** What comes from elsewhere is copied. */
    void checkMove(File from, File to) throws IOException {
        if (counts(to) && !counts(from)) {
            checkWrite(to);
        }
    }

    void checkWrite(File file) throws IOException {
        if (this.full.exists()) {
            throw new IOException(
                file + ": Disk quota exceeded. The workspace's files (dbfs:/, /Volumes, /Workspace) take more than they may (dbfs_gb, or their"
                + " number). Delete some, or ask an administrator to raise dbfs_gb.");
        }
    }
}

/** Writes one of the workspace's files, as long as the quota allows it. */
final class QuotaStream extends FilterOutputStream implements Syncable, StreamCapabilities {
    private final Quota quota;
    private final File file;

    QuotaStream(OutputStream out, Quota quota, File file) {
        super(out);
        this.quota = quota;
        this.file = file;
    }

    public void write(int data) throws IOException {
        this.quota.checkWrite(this.file);
        this.out.write(data);
    }

    public void write(byte[] data, int offset, int length) throws IOException {
        this.quota.checkWrite(this.file);
        this.out.write(data, offset, length);
    }

    public void hflush() throws IOException {
        ((Syncable) this.out).hflush();
    }

    public void hsync() throws IOException {
        ((Syncable) this.out).hsync();
    }

    public boolean hasCapability(String capability) {
        return ((StreamCapabilities) this.out).hasCapability(capability);
    }
}

/** A local file system whose renames and creations are one step (AtomicMoves), where Hadoop's look first and act then. */
abstract class SteadyFiles extends RawLocalFileSystem implements AtomicFiles {
    private static final Pattern STAGE = Pattern.compile("_temporary-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}");

    /** Throws if nothing may be written there. */
    abstract void check(Path f) throws IOException;

    private Quota quota = new Quota(new Configuration(false));

    public void initialize(URI name, Configuration conf) throws IOException {
        super.initialize(name, conf);
        this.quota = new Quota(conf);
    }

    protected OutputStream createOutputStreamWithMode(Path f, boolean append, FsPermission permission) throws IOException {
        File file = pathToFile(f);
        this.quota.checkCreate(file);
        OutputStream stream = super.createOutputStreamWithMode(f, append, permission);
        return this.quota.counts(file) ? new QuotaStream(stream, this.quota, file) : stream;
    }

    public boolean rename(Path src, Path dst) throws IOException {
        check(dst);
        this.quota.checkMove(pathToFile(src), pathToFile(dst));
        return AtomicMoves.rename(pathToFile(src), pathToFile(dst));
    }

    public void move(Path from, Path to, boolean replace) throws IOException {
        check(to);
        this.quota.checkMove(pathToFile(from), pathToFile(to));
        AtomicMoves.move(pathToFile(from), pathToFile(to), replace);
    }

    public boolean makeStage(Path stage) throws IOException {
        check(stage);
        File directory = pathToFile(stage);
        return mkdirs(stage.getParent()) && (directory.mkdir() || directory.isDirectory());
    }

    /** A task whose job is over must not make the job's stage again, above what it writes: nobody would remove it. */
    protected boolean mkOneDirWithMode(Path p, File directory, FsPermission permission) throws IOException {
        return !STAGE.matcher(directory.getName()).matches() && super.mkOneDirWithMode(p, directory, permission);
    }

    public FSDataOutputStream create(
        Path f, boolean overwrite, int buffer, short replication, long block, Progressable progress) throws IOException {
        return super.create(f, claimed(f, overwrite, true), buffer, replication, block, progress);
    }

    public FSDataOutputStream create(
        Path f, FsPermission permission, boolean overwrite, int buffer, short replication, long block, Progressable progress)
        throws IOException {
        return super.create(f, permission, claimed(f, overwrite, true), buffer, replication, block, progress);
    }

    public FSDataOutputStream createNonRecursive(
        Path f, FsPermission permission, boolean overwrite, int buffer, short replication, long block, Progressable progress)
        throws IOException {
        return super.createNonRecursive(f, permission, claimed(f, overwrite, false), buffer, replication, block, progress);
    }

    public FSDataOutputStream createNonRecursive(
        Path f, FsPermission permission, EnumSet flags, int buffer, short replication, long block, Progressable progress)
        throws IOException {
        if (!flags.contains(CreateFlag.APPEND)) {
            claimed(f, flags.contains(CreateFlag.OVERWRITE), false);
            flags = EnumSet.of(CreateFlag.CREATE, CreateFlag.OVERWRITE);
        }
        return super.createNonRecursive(f, permission, flags, buffer, replication, block, progress);
    }

    /** Takes the name of a file that must be new. From then on it may be overwritten: it is this caller's. */
    private boolean claimed(Path f, boolean overwrite, boolean parents) throws IOException {
        if (!overwrite) {
            check(f);
            this.quota.checkCreate(pathToFile(f));
            if (parents && f.getParent() != null && !mkdirs(f.getParent())) {
                throw new IOException("Mkdirs failed to create " + f.getParent());
            }
            AtomicMoves.create(pathToFile(f));
        }
        return true;
    }
}

/** The workspace's files, without checksum files beside them. */
final class DbfsFiles extends SteadyFiles {
    private static final URI NAME = URI.create("dbfs:///");

    private Trees trees = new Trees(new Configuration(false));
    private String temporary = "";
    private String scratch = "";

    public URI getUri() {
        return NAME;
    }

    public String getScheme() {
        return "dbfs";
    }

    public void initialize(URI name, Configuration conf) throws IOException {
        super.initialize(name, conf);
        this.trees = new Trees(conf);
        this.temporary = conf.get(Places.TEMPORARY, "");
        this.scratch = conf.get(Places.SCRATCH, "");
        setWorkingDirectory(new Path("dbfs:/"));
    }

    public Path getHomeDirectory() {
        return new Path("dbfs:/");
    }

    /**
     * The file for a path. Spark 3 puts temporary checkpoints into Java's temporary directory, but treats it as a path of the
     * cluster's default file system.
     */
    public File pathToFile(Path path) {
        checkPath(path);
        Path whole = path.isAbsolute() ? path : new Path(getWorkingDirectory(), path);
        String name = whole.toUri().getPath();
        if (Trees.within(name, this.temporary)) {
            return Apart.checked(new File(this.scratch + name.substring(this.temporary.length())));
        }
        return Apart.checked(this.trees.ofDbfs(name));
    }

    void check(Path f) {
    }

    public FileStatus getFileStatus(Path f) throws IOException {
        return status(f);
    }

    public FileStatus getFileLinkStatus(Path f) throws IOException {
        return status(f);
    }

    public FileStatus[] listStatus(Path f) throws IOException {
        FileStatus own = status(f);
        return own.isDirectory() ? super.listStatus(f) : new FileStatus[] {own};
    }

    private FileStatus status(Path f) throws IOException {
        return Trees.status(pathToFile(f), f.makeQualified(NAME, getWorkingDirectory()), getDefaultBlockSize(f));
    }

    /** Sets permissions without starting `chmod` for every file. */
    public void setPermission(Path p, FsPermission permission) throws IOException {
        String text = permission.getUserAction().SYMBOL + permission.getGroupAction().SYMBOL + permission.getOtherAction().SYMBOL;
        Files.setPosixFilePermissions(pathToFile(p).toPath(), PosixFilePermissions.fromString(text));
    }
}

/** The node's own files. On a cluster with several nodes they can be written only where all nodes see them. */
final class OwnFiles extends SteadyFiles {
    private Trees trees = new Trees(new Configuration(false));
    private String temporary = "";
    private String checkpoint = "";
    private String scratch = "";
    private String[] shared = new String[0];

    public void initialize(URI name, Configuration conf) throws IOException {
        super.initialize(name, conf);
        this.trees = new Trees(conf);
        this.temporary = conf.get(Places.TEMPORARY, "");
        this.checkpoint = this.temporary + "/temporary-";
        this.scratch = conf.get(Places.SCRATCH, "");
        String places = conf.get(Places.SHARED, "");
        this.shared = places.isEmpty() ? new String[0] : places.split(":");
    }

    /** Spark also asks a table's file system about partitions in other places, which may be in `dbfs:/`. */
    protected void checkPath(Path path) {
        if (!"dbfs".equals(path.toUri().getScheme())) {
            super.checkPath(path);
        }
    }

    /**
     * The file for a path. The workspace's files keep their names where the node does not mount them there. Temporary checkpoints,
     * which Spark creates for streams without one, go to the shared directory: tasks on all nodes read and write them.
     */
    public File pathToFile(Path path) {
        return Apart.checked(file(path));
    }

    private File file(Path path) {
        if ("dbfs".equals(path.toUri().getScheme())) {
            return this.trees.ofDbfs(path.toUri().getPath());
        }
        File file = super.pathToFile(path);
        String name = file.getPath();
        if (!this.scratch.isEmpty() && name.startsWith(this.checkpoint)) {
            return new File(this.scratch + name.substring(this.checkpoint.lastIndexOf('/')));
        }
        if (!this.scratch.isEmpty() && Apart.isOn() && name.equals(this.temporary)) {
            return new File(this.scratch); // above these
        }
        File shared = this.trees.named(name);
        return shared != null ? shared : file;
    }

    public FileStatus getFileStatus(Path f) throws IOException {
        if (!"dbfs".equals(f.toUri().getScheme()) && this.trees.named(super.pathToFile(f).getPath()) == null) {
            return super.getFileStatus(f);
        }
        return Trees.status(pathToFile(f), f.makeQualified(getUri(), getWorkingDirectory()), getDefaultBlockSize(f));
    }

    public boolean mkdirs(Path f) throws IOException {
        return there(f) || super.mkdirs(f);
    }

    public boolean mkdirs(Path f, FsPermission permission) throws IOException {
        return there(f) || super.mkdirs(f, permission);
    }

    protected OutputStream createOutputStreamWithMode(Path f, boolean append, FsPermission permission) throws IOException {
        check(f);
        return super.createOutputStreamWithMode(f, append, permission);
    }

    public boolean delete(Path p, boolean recursive) throws IOException {
        if (pathToFile(p).exists()) {
            check(p); // first: an overwrite must not delete files that it cannot write again
        }
        return super.delete(p, recursive);
    }

    private boolean there(Path f) throws IOException {
        if (pathToFile(f).isDirectory()) {
            return true;
        }
        check(f);
        return false;
    }

    /** The directory that the program named, for a path that Spark or Hadoop's committer makes below it. */
    static String asked(String path) {
        String cut = path.replaceFirst("(?s)/(_temporary(-[^/]*)?(/.*)?|_spark_metadata(/.*)?|\\.(spark|hive)-staging.*)$", "");
        return cut.isEmpty() ? "/" : cut;
    }

    void check(Path f) throws IOException {
        if (this.shared.length == 0) {
            return;
        }
        String name = pathToFile(f).getCanonicalPath();
        for (int index = 0; index < this.shared.length; index++) {
            String top = new File(this.shared[index]).getCanonicalPath();
            if (name.equals(top) || name.startsWith(top + "/")) {
                return;
            }
        }
        String path = asked(f.toUri().getPath());
        throw new IOException(
            "file:" + path + " is on one node only, and this cluster has several: what one node writes there, the others do not see."
            + " Write to dbfs:" + path + " instead, which all nodes see.");
    }
}

/** `file:/` for Hadoop, which requires this superclass. Without checksum files, which would fill `/dbfs`. */
final class NodeFiles extends LocalFileSystem implements AtomicFiles {
    public NodeFiles() {
        super(new OwnFiles());
    }

    public void initialize(URI name, Configuration conf) throws IOException {
        super.initialize(name, conf);
        setWriteChecksum(false);
        setVerifyChecksum(false);
    }

    public void move(Path from, Path to, boolean replace) throws IOException {
        ((AtomicFiles) getRawFileSystem()).move(from, to, replace);
    }

    public boolean makeStage(Path stage) throws IOException {
        return ((AtomicFiles) getRawFileSystem()).makeStage(stage);
    }

    /** Unwrapped: Hadoop's wrapper makes the Parquet of Spark 3.4 believe that the stream can fill Java's byte buffers. */
    public FSDataInputStream open(Path f, int bufferSize) throws IOException {
        return getRawFileSystem().open(f, bufferSize);
    }
}

/** Both file systems for Hadoop's newer interface (FileContext), which streaming checkpoints use. */
abstract class FilesContext extends DelegateToFileSystem {
    private final AtomicFiles files;

    FilesContext(URI name, FileSystem files, Configuration conf, String scheme) throws IOException, java.net.URISyntaxException {
        super(name, files, conf, scheme, false);
        this.files = (AtomicFiles) files;
    }

    public void renameInternal(Path src, Path dst) throws IOException {
        this.files.move(src, dst, false);
    }

    /** Hadoop's own looks whether the name is in use, removes what an overwrite replaces, and renames then. */
    public void renameInternal(Path src, Path dst, boolean overwrite) throws IOException {
        this.files.move(src, dst, overwrite);
    }

    public int getUriDefaultPort() {
        return -1;
    }

    public boolean isValidName(String src) {
        return true;
    }
}

final class DbfsContext extends FilesContext {
    public DbfsContext(URI name, Configuration conf) throws IOException, java.net.URISyntaxException {
        super(name, new DbfsFiles(), conf, "dbfs");
    }
}

final class NodeContext extends FilesContext {
    public NodeContext(URI name, Configuration conf) throws IOException, java.net.URISyntaxException {
        super(name, new NodeFiles(), conf, "file");
    }
}
