package brickyard;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.StandardCopyOption;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Records of writes (KeptCommit), a directory for each cluster, side by side in the workspace's files: what is finished when a
 * driver was killed, by the next driver of its cluster or by one of another cluster. Compiled as NodeFiles.java is.
 */
public final class CommitRecords {
    private static final String RECORDS = "fs.brickyard.writes"; // directory of this cluster's records
    private static final String KEY = "fs.brickyard.writes.key"; // a file that only this cluster's nodes see
    private static final String SEAL = "seal"; // in a record: that this cluster wrote it
    private static final String HMAC = "HmacSHA256";
    private static final String PATIENCE = "fs.brickyard.commit.patience"; // for other drivers' commits
    private static final long USUAL_PATIENCE_S = 300;
    private static final String STAGE = "_temporary-";
    private static final String PARTED = "parted"; // in a record: directories of partitions that were not there before
    private static final String SUFFIX = ".json";
    private static final String DRAFT = ".draft";
    private static final long PATIENCE_NS = 30000000000L;
    private static final int REMOVALS = 10; // of a stage to which tasks still add

    private static final Logger LOG = LoggerFactory.getLogger(CommitRecords.class);
    private static final Map LATE = new LinkedHashMap(); // file -> record of this driver that is committed and could not be finished

    private static final Set EMPTY = new java.util.HashSet(); // other clusters' directories without records that were looked at

    private static boolean late; // there were such
    private static CommitLocks locks = new CommitLocks(null);
    private static byte[] key; // of seals; null: there is none

    /** Waits until no other driver commits to the same place, as long as this one does not call `committed`. */
    static void committing(Configuration conf, String path) throws IOException, InterruptedException {
        new File(conf.get(RECORDS)).mkdirs(); // programs may remove what is in the workspace's files
        boolean ready = false;
        try {
            takePlace(conf, path);
            finishOthers(conf); // what a killed driver has committed comes before what is committed now
            ready = true;
        } finally {
            if (!ready) { // interrupted, too: the agent may have given us the place when we stopped waiting for its answer
                committed(path);
            }
        }
    }

    static void committed(String path) throws InterruptedException {
        try {
            locks.giveBackPlace(path);
        } catch (IOException error) { // the rows count, and the lock ends with the node at the latest
            LOG.warn("The right to commit to " + path + " cannot be given back", error);
        }
    }

    /** Not for ever: the other driver may hang. */
    private static void takePlace(Configuration conf, String path) throws IOException, InterruptedException {
        long patience = conf.getTimeDuration(PATIENCE, USUAL_PATIENCE_S, TimeUnit.SECONDS);
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(patience);
        long pause = 10L;
        for (String holder = locks.takePlace(path); holder != null; holder = locks.takePlace(path)) {
            if (System.nanoTime() > deadline) {
                throw new IOException(
                    "Nothing was written to " + path + ": the driver of cluster " + holder + " has been committing there for " + patience
                    + " s. Write again when it has ended, or restart that cluster.");
            }
            Thread.sleep(pause);
            pause = Math.min(2L * pause, 200L);
        }
    }

    /** Puts the files of a job in place whose record says that it is committed: its rows count, whatever fails here. */
    static void finishOwn(Configuration conf, String directory, File file, Map record) throws IOException {
        try {
            finish(conf, null, record);
            end(directory, file, record);
        } catch (IOException error) {
            synchronized (CommitRecords.class) {
                LATE.put(file, record);
                late = true;
            }
            throw new IOException(
                "The rows written to " + record.get("path") + " are committed, but their files cannot be put in place now: "
                + error.getMessage() + " This is tried again when a table is used or another write commits, and when the driver starts "
                + "again. Do not write the rows once more.", error);
        }
    }

    /** Tries again what this driver has committed and could not put in place. */
    private static void finishLate(Configuration conf) {
        for (java.util.Iterator each = LATE.entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            File file = (File) entry.getKey();
            try {
                finish(conf, null, (Map) entry.getValue());
                end(file.getParent(), file, (Map) entry.getValue());
                each.remove();
            } catch (IOException error) {
                LOG.warn("What " + file + " says is still to be done", error);
            }
        }
    }

    // ── after a driver that was killed ────────────────────────────────────────────────────────────────────────────────────

    /**
     * Takes the directory of records for this driver, as long as it lives: whoever can lock it knows that no driver is left.
     * Finishes what was committed, and removes what was not. Returns what could not be done.
     */
    public static List takeOver(Configuration conf, CatalogChannel agent) throws IOException, InterruptedException {
        locks = new CommitLocks(agent);
        File directory = new File(conf.get(RECORDS));
        long deadline = System.nanoTime() + PATIENCE_NS;
        while (System.nanoTime() < deadline) {
            Files.createDirectories(directory.toPath(), new java.nio.file.attribute.FileAttribute[0]);
            if (locks.takeOwn(directory)) {
                takeKey(conf);
                return recover(conf, directory, false);
            }
            Thread.sleep(20L); // another driver is finishing the writes, or has removed the directory
        }
        throw new IOException("another driver of this cluster still writes, or finishes what it wrote: " + directory);
    }

    /** The same for records in `directory`, where nobody else can write. */
    public static List recover(Configuration conf, String directory) {
        return recover(conf, new File(directory), true);
    }

    /** Records that are not `trusted` and not sealed by this cluster may be anybody's. */
    private static List recover(Configuration conf, File directory, boolean trusted) {
        List notes = new ArrayList();
        File[] found = directory.listFiles();
        if (found == null) {
            return notes;
        }
        Arrays.sort(found);
        for (int index = 0; index < found.length; index++) {
            if (!found[index].getName().endsWith(SUFFIX)) {
                if (found[index].getName().endsWith(DRAFT)) {
                    found[index].delete();
                }
                continue;
            }
            try {
                Map record = (Map) new ObjectMapper().readValue(found[index], Map.class);
                CarefulFiles careful = trusted || isSealed(record) ? null : new CarefulFiles(conf);
                record.remove(SEAL);
                if (careful != null) {
                    checkPlaces(careful, record);
                }
                finish(conf, careful, record);
                end(directory.getPath(), found[index], record);
            } catch (Exception error) {
                notes.add(found[index] + ": " + error);
            }
        }
        return notes;
    }

    /** Makes the key on the cluster's first start. Without one (the disk is full), records are taken for a stranger's later. */
    private static void takeKey(Configuration conf) {
        File file = new File(conf.get(KEY));
        try {
            if (!file.exists()) {
                byte[] made = new byte[32];
                new SecureRandom().nextBytes(made);
                File draft = new File(file.getPath() + DRAFT);
                Files.write(draft.toPath(), made, new OpenOption[0]);
                Files.move(draft.toPath(), file.toPath(), new java.nio.file.CopyOption[] {StandardCopyOption.ATOMIC_MOVE});
            }
            key = Files.readAllBytes(file.toPath());
        } catch (IOException error) {
            LOG.warn("Records of writes are not sealed", error);
        }
    }

    private static boolean isSealed(Map record) throws IOException {
        Object seal = record.get(SEAL);
        return key != null && seal instanceof String && MessageDigest.isEqual(seal(record).getBytes(), ((String) seal).getBytes());
    }

    private static String seal(Map record) throws IOException {
        Map plain = new TreeMap(record);
        plain.remove(SEAL);
        try {
            Mac mac = Mac.getInstance(HMAC);
            mac.init(new SecretKeySpec(key, HMAC));
            return Base64.getEncoder().encodeToString(mac.doFinal(new ObjectMapper().writeValueAsBytes(plain)));
        } catch (GeneralSecurityException error) {
            throw new IOException(error);
        }
    }

    /** A stranger's record may lead only to the workspace's files, where all clusters may write. Others are left to its cluster. */
    private static void checkPlaces(CarefulFiles careful, Object tree) throws IOException {
        if (tree instanceof String && !careful.has((String) tree)) {
            throw new IOException(tree + " is not one of the workspace's files");
        }
        java.util.Collection parts = tree instanceof Map ? ((Map) tree).values() : new ArrayList();
        parts = tree instanceof List ? (List) tree : parts;
        for (java.util.Iterator each = parts.iterator(); each.hasNext();) {
            checkPlaces(careful, each.next());
        }
    }

    /**
     * Does the same for other clusters whose driver was killed, after what this driver could not finish. Returns the directories with
     * records of partitions that the catalog may not know.
     */
    static synchronized List finishOthers(Configuration conf) throws IOException, InterruptedException {
        List found = new ArrayList();
        File own = new File(conf.get(RECORDS));
        if (late) {
            finishLate(conf);
            found.add(own); // Spark has not told the catalog of the partitions
        }
        File[] all = own.getParentFile().listFiles();
        for (int index = 0; all != null && index < all.length; index++) {
            if (!all[index].equals(own) && all[index].isDirectory() && !Files.isSymbolicLink(all[index].toPath())) {
                finishOther(conf, all[index], found);
            }
        }
        return found;
    }

    private static void finishOther(Configuration conf, File directory, List found) throws IOException, InterruptedException {
        if (!hasRecords(directory) && !EMPTY.add(directory.getName())) {
            return;
        }
        boolean taken = true; // unless the answer is no: who is interrupted while waiting for it may have it
        try {
            taken = locks.takeOther(directory);
            if (!taken) {
                return;
            }
            recover(conf, directory, false);
            String[] left = directory.list();
            for (int index = 0; left != null && index < left.length; index++) {
                if (left[index].startsWith(PARTED)) {
                    found.add(directory);
                    return;
                }
            }
            CommitLocks.removeOlder(directory);
            directory.delete(); // if it is empty
        } finally {
            if (taken) {
                locks.giveBackOther(directory);
            }
        }
    }

    private static boolean hasRecords(File directory) {
        String[] names = directory.list();
        for (int index = 0; names != null && index < names.length; index++) {
            if (names[index].endsWith(SUFFIX)) {
                return true;
            }
        }
        return false;
    }

    /** The catalog knows the partitions of the table in `path` that are in these directories. */
    static void adopted(Configuration conf, Path path, Set known) throws IOException {
        File record = parted(conf.get(RECORDS), path.toString());
        if (!record.exists()) {
            return;
        }
        Map held = (Map) new ObjectMapper().readValue(record, Map.class);
        if (known.containsAll((List) held.get(PARTED))) {
            record.delete();
        }
    }

    private static File parted(String directory, String path) {
        return new File(directory, PARTED + Integer.toHexString(path.hashCode()) + SUFFIX);
    }

    /** The catalog learns of partitions that a job has made after that, so they stay on record: of the last job for each place. */
    static void end(String directory, File record, Map done) throws IOException {
        List parted = done.containsKey(PARTED) ? (List) done.get(PARTED) : new ArrayList();
        if (!parted.isEmpty()) {
            Map rest = new LinkedHashMap();
            rest.put("stages", new ArrayList());
            rest.put(PARTED, parted);
            rest.put("path", done.get("path"));
            File kept = parted(directory, (String) done.get("path"));
            write(directory, kept.getName().substring(0, kept.getName().length() - SUFFIX.length()), false, rest);
            if (record.equals(kept)) {
                return;
            }
        }
        record.delete();
    }

    /** As often as you like: names of files are never used twice. `careful`: for a stranger's record; else null. */
    static void finish(Configuration conf, CarefulFiles careful, Map record) throws IOException {
        List removed = record.containsKey("remove") ? (List) record.get("remove") : new ArrayList();
        List moves = record.containsKey("move") ? (List) record.get("move") : new ArrayList();
        Set needed = new LinkedHashSet();
        for (int index = 0; index < moves.size(); index++) {
            needed.add(new Path((String) ((List) moves.get(index)).get(1)).getParent().toString());
        }
        Set emptied = new LinkedHashSet();
        for (int index = 0; index < removed.size(); index++) {
            Path file = new Path((String) removed.get(index));
            FileSystem fs = fs(conf, careful, file);
            if (!fs.delete(file, false) && fs.exists(file)) {
                throw new IOException("The file " + file + " cannot be removed.");
            }
            emptied.add(file.getParent().toString());
        }
        for (int index = 0; index < moves.size(); index++) {
            Path from = new Path((String) ((List) moves.get(index)).get(0));
            Path to = new Path((String) ((List) moves.get(index)).get(1));
            FileSystem fs = fs(conf, careful, from);
            if (fs.exists(from)) {
                ((AtomicFiles) fs).move(from, to, true); // _SUCCESS is there from an earlier job
            }
        }
        emptied.removeAll(needed);
        for (java.util.Iterator each = emptied.iterator(); each.hasNext();) {
            Path directory = new Path((String) each.next());
            removeEmpty(fs(conf, careful, directory), directory, (String) record.get("path"));
        }
        removeStages(conf, careful, (List) record.get("stages"));
    }

    private static FileSystem fs(Configuration conf, CarefulFiles careful, Path path) throws IOException {
        return careful != null ? careful : path.getFileSystem(conf);
    }

    /** Directories of which an overwrite has left nothing: one called `_spark_metadata` would make readers find no rows. */
    static void removeEmpty(FileSystem fs, Path directory, String top) throws IOException {
        Path each = directory;
        while (each.toString().startsWith(top + "/") && fs.exists(each) && fs.listStatus(each).length == 0) {
            fs.delete(each, false);
            each = each.getParent();
        }
    }

    static void removeStages(Configuration conf, CarefulFiles careful, java.util.Collection stages) throws IOException {
        for (java.util.Iterator each = stages.iterator(); each.hasNext();) {
            Path stage = new Path((String) each.next());
            if (stage.getName().startsWith(STAGE)) {
                FileSystem fs = fs(conf, careful, stage);
                boolean there = true;
                for (int tries = 0; there && tries < REMOVALS; tries++) {
                    there = !fs.delete(stage, true) && fs.exists(stage);
                }
            }
        }
    }

    static void write(String directory, String job, boolean sync, Map record) throws IOException {
        if (key != null) {
            record.put(SEAL, seal(record));
        }
        File file = new File(directory, job + SUFFIX);
        File draft = new File(directory, job + DRAFT);
        draft.getParentFile().mkdirs(); // programs may remove what is in the cluster's directory
        try {
            FileOutputStream stream = new FileOutputStream(draft);
            try {
                stream.write(new ObjectMapper().writeValueAsBytes(record));
                if (sync) {
                    stream.getFD().sync();
                }
            } finally {
                stream.close();
            }
            Files.move(draft.toPath(), file.toPath(), new java.nio.file.CopyOption[] {StandardCopyOption.ATOMIC_MOVE});
        } finally {
            draft.delete(); // there is none, unless the disk is full
        }
    }
}
