package brickyard;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Locks of this driver on what it writes. Its agent holds them (agent/catalog/writelocks.py), where no program of a node can take them. A node
 * without a metastore has records that only its own cluster sees, and a file for the cluster's lock. Compiled as NodeFiles.java is.
 */
final class CommitLocks {
    private static final String OLDER = "lock"; // among the records

    private final CatalogChannel agent; // null: there is no metastore

    CommitLocks(CatalogChannel agent) {
        this.agent = agent;
    }

    /** Takes the records of this cluster for the life of this driver, or returns false: its previous driver lives. */
    boolean takeOwn(File directory) throws IOException, InterruptedException {
        if (this.agent != null) {
            return holder("driver", directory.getName()) == null;
        }
        File file = new File(directory, OLDER);
        RandomAccessFile lifetime = new RandomAccessFile(file, "rw"); // stays open: closing it would end the lock
        if (lifetime.getChannel().tryLock() != null && file.exists()) {
            return true;
        }
        lifetime.close();
        return false;
    }

    /** Takes another cluster's records, or returns false: its driver lives, or another one finishes its writes. */
    boolean takeOther(File directory) throws IOException, InterruptedException {
        return this.agent != null && !isHeldByOlder(directory) && holder("driver", directory.getName()) == null;
    }

    void giveBackOther(File directory) throws IOException, InterruptedException {
        give("driver", directory.getName());
    }

    /** Takes the right to commit to a place. Returns null, or the cluster whose driver has it. */
    String takePlace(String path) throws IOException, InterruptedException {
        return this.agent == null ? null : holder("place", path);
    }

    void giveBackPlace(String path) throws IOException, InterruptedException {
        if (this.agent != null) {
            give("place", path);
        }
    }

    private String holder(String kind, String name) throws IOException, InterruptedException {
        Map answer = this.agent.ask(about("lock", kind, name));
        return Boolean.TRUE.equals(answer.get("held")) ? null : String.valueOf(answer.get("holder"));
    }

    private void give(String kind, String name) throws IOException, InterruptedException {
        this.agent.ask(about("unlock", kind, name));
    }

    private static Map about(String ask, String kind, String name) {
        Map request = new LinkedHashMap();
        request.put("ask", ask);
        request.put("kind", kind);
        request.put("name", name);
        return request;
    }

    /** Removes what a driver from before agents had locks has left. */
    static void removeOlder(File directory) {
        new File(directory, OLDER).delete();
    }

    /** Whether a driver lives that was started before agents had locks. Such a driver locks a file among its records. */
    private static boolean isHeldByOlder(File directory) throws IOException {
        File file = new File(directory, OLDER);
        if (!file.isFile()) {
            return false;
        }
        RandomAccessFile stream = new RandomAccessFile(file, "rw");
        try {
            return stream.getChannel().tryLock() == null;
        } catch (java.nio.channels.OverlappingFileLockException own) {
            return true;
        } finally {
            stream.close();
        }
    }
}
