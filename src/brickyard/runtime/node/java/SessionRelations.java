package brickyard;

import java.lang.reflect.Field;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.CachedData;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;

/**
 * Has what Spark caches of files be found again, and be right. Spark finds it by comparing relations, and makes a new one for each
 * query here: the files that an older one knows may not be all, since other clusters write to tables as well.
 *
 * Relations of the same files must be equal for that. Those of text and of binary files are not before Spark 4.1, as their formats are
 * not. And if a query's relation has other files than a cached one of the same place, Spark reads these again, as it does after writes
 * of its own. A table whose partitions the catalog knows has no list of its files, so for such a table that is left to REFRESH TABLE.
 */
public final class SessionRelations {
    private static final String SPARKS = "org.apache.spark.sql.execution.datasources.";
    private static final Map FORMATS = new ConcurrentHashMap(); // class -> the one that all relations have
    private static final ThreadLocal BUSY = new ThreadLocal(); // not null: Spark plans again what was cached

    private SessionRelations() {}

    /** Prepares the relations of a session's query. */
    public static void prepare(Object session, LogicalPlan plan) throws Exception {
        if (BUSY.get() != null) {
            return;
        }
        CacheManager manager = null;
        for (scala.collection.Iterator leaves = plan.collectLeaves().iterator(); leaves.hasNext();) {
            Object leaf = leaves.next();
            HadoopFsRelation relation = relation(leaf);
            if (relation == null) {
                leaveColumnsToLog(leaf);
                continue;
            }
            share(relation);
            if (manager == null) {
                manager = (CacheManager) SessionOwner.get(SessionOwner.get(session, "sharedState"), "cacheManager");
            }
            if (!manager.isEmpty() && relation.location() instanceof PartitioningAwareFileIndex && isOld(manager, relation.location())) {
                again(session, relation.location());
            }
        }
    }

    /** The columns of a Delta table are in its log. Delta Lake 3 refuses to stream a table for which the catalog says them, too. */
    private static void leaveColumnsToLog(Object leaf) throws Exception {
        if (!leaf.getClass().getSimpleName().equals("StreamingRelation")) { // its package is another from Spark 4.1 on
            return;
        }
        DataSource source = (DataSource) leaf.getClass().getMethod("dataSource", new Class[0]).invoke(leaf, new Object[0]);
        if (source.catalogTable().isDefined() && source.className().equalsIgnoreCase("delta")) {
            Field field = DataSource.class.getDeclaredField("userSpecifiedSchema");
            field.setAccessible(true);
            field.set(source, scala.Option.empty());
        }
    }

    private static HadoopFsRelation relation(Object leaf) {
        boolean found = leaf instanceof LogicalRelation && ((LogicalRelation) leaf).relation() instanceof HadoopFsRelation;
        return found ? (HadoopFsRelation) ((LogicalRelation) leaf).relation() : null;
    }

    private static void share(HadoopFsRelation relation) throws Exception {
        Object format = relation.fileFormat();
        Class type = format.getClass();
        boolean equal = type.getMethod("equals", new Class[] {Object.class}).getDeclaringClass() != Object.class;
        if (equal || !type.getName().startsWith(SPARKS)) {
            return;
        }
        Object first = FORMATS.get(type);
        if (first == null) {
            FORMATS.put(type, format);
        } else if (first != format) {
            Field field = HadoopFsRelation.class.getDeclaredField("fileFormat");
            field.setAccessible(true);
            field.set(relation, first);
        }
    }

    /** Whether something is cached of that place when it had other files. */
    private static boolean isOld(CacheManager manager, FileIndex now) throws Exception {
        Field field = CacheManager.class.getDeclaredField("cachedData");
        field.setAccessible(true);
        Set present = null;
        for (scala.collection.Iterator each = ((scala.collection.Iterable) field.get(manager)).iterator(); each.hasNext();) {
            scala.collection.Iterator leaves = ((CachedData) each.next()).plan().collectLeaves().iterator();
            while (leaves.hasNext()) {
                HadoopFsRelation cached = relation(leaves.next());
                if (cached == null || cached.location() == now || !(cached.location() instanceof PartitioningAwareFileIndex)
                    || !cached.location().rootPaths().equals(now.rootPaths())) {
                    continue;
                }
                if (present != null && !present.equals(files(cached.location()))) {
                    return true;
                }
                if (present == null && !files(now).equals(files(cached.location()))) {
                    now.refresh(); // a relation that a user has kept may be the older one
                    present = files(now);
                    if (!present.equals(files(cached.location()))) {
                        return true;
                    }
                }
            }
        }
        return false;
    }

    private static void again(Object session, FileIndex now) throws Exception {
        Object catalog = SessionOwner.get(session, "catalog");
        BUSY.set(Boolean.TRUE);
        try {
            for (scala.collection.Iterator each = now.rootPaths().iterator(); each.hasNext();) {
                catalog.getClass().getMethod("refreshByPath", new Class[] {String.class})
                    .invoke(catalog, new Object[] {((Path) each.next()).toString()});
            }
        } finally {
            BUSY.remove();
        }
    }

    private static Set files(FileIndex index) {
        Set found = new HashSet();
        scala.collection.Iterator each = ((PartitioningAwareFileIndex) index).allFiles().iterator();
        while (each.hasNext()) {
            FileStatus file = (FileStatus) each.next();
            found.add(file.getPath() + " " + file.getLen() + " " + file.getModificationTime());
        }
        return found;
    }
}
