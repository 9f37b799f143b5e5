package brickyard;

import java.util.Iterator;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.TaskSchedulerImpl;

/**
 * The pools between which Spark shares its executors fairly (spark.scheduler.mode): one for each context and each Spark Connect session.
 * Spark makes a pool when a job first names it, and keeps it for ever; it sorts all of them at every offer of an executor.
 */
public final class JobPools {
    public static final String PROPERTY = "spark.scheduler.pool";
    private static final String CONTEXT = "context-";
    private static final String SESSION = "session-";
    private static final int MANY = 100;

    private JobPools() {}

    /** Whether a pool is one of those, rather than one that a user has chosen. */
    public static boolean isOwn(String pool) {
        return pool == null || pool.startsWith(CONTEXT) || pool.startsWith(SESSION);
    }

    /** Removes pools in which nothing runs, once they are many, but those of an allocation file. A job that names one again gets a new one. */
    public static void sweep(SparkContext context) {
        if (!(context.taskScheduler() instanceof TaskSchedulerImpl)) {
            return;
        }
        TaskSchedulerImpl scheduler = (TaskSchedulerImpl) context.taskScheduler();
        synchronized (scheduler) { // as Spark does while it puts a job's tasks into a pool
            Pool root = scheduler.rootPool();
            if (root == null || root.schedulableQueue().size() <= MANY) {
                return;
            }
            for (Iterator each = root.schedulableQueue().iterator(); each.hasNext();) {
                Object entry = each.next();
                if (entry instanceof Pool) {
                    Pool pool = (Pool) entry;
                    boolean usual = pool.weight() == 1 && pool.minShare() == 0 && pool.schedulingMode().toString().equals("FIFO");
                    if (usual && pool.schedulableQueue().isEmpty()) {
                        root.removeSchedulable(pool);
                    }
                }
            }
        }
    }
}
