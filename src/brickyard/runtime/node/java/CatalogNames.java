package brickyard;

import java.lang.reflect.Field;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;

/**
 * The names that Databricks has for what is one catalog here: `hive_metastore` and `main` lead to the very object that Spark has as
 * `spark_catalog`. So all that works there works by these names, also what Spark does for its own catalog alone (views, partitions,
 * ANALYZE). A catalog of the cluster's own by one of these names (`spark.sql.catalog.main`) has precedence.
 */
public final class CatalogNames {
    public static final String[] NAMES = new String[] {"hive_metastore", "main"};
    private static final String SETTING = "spark.sql.catalog.";

    private CatalogNames() {}

    /** Whether it is one of these names. */
    public static boolean isOne(String name) {
        return name.equals(NAMES[0]) || name.equals(NAMES[1]);
    }

    /** Gives a session these names, and the catalog `system`. */
    public static void give(CatalogManager manager, SQLConf conf, CatalogPlugin system) throws Exception {
        scala.collection.mutable.HashMap catalogs = (scala.collection.mutable.HashMap) read(manager, "catalogs");
        CatalogPlugin ours = ours(manager, conf);
        synchronized (manager) {
            for (int index = 0; index < NAMES.length; index++) {
                if (!conf.contains(SETTING + NAMES[index])) {
                    catalogs.put(NAMES[index], ours);
                }
            }
            if (!conf.contains(SETTING + system.name())) {
                catalogs.put(system.name(), system);
            }
        }
    }

    /** Takes back a name for which the session has got a catalog of its own since. */
    public static void giveUp(CatalogManager manager, SQLConf conf, CatalogPlugin system) throws Exception {
        for (int index = 0; index < NAMES.length; index++) {
            giveUp(manager, conf, NAMES[index], ours(manager, conf));
        }
        giveUp(manager, conf, system.name(), system);
    }

    private static void giveUp(CatalogManager manager, SQLConf conf, String name, CatalogPlugin given) throws Exception {
        if (conf.contains(SETTING + name)) {
            synchronized (manager) {
                scala.collection.mutable.HashMap catalogs = (scala.collection.mutable.HashMap) read(manager, "catalogs");
                scala.Option known = catalogs.get(name);
                if (known.isDefined() && known.get() == given) {
                    catalogs.remove(name);
                }
            }
        }
    }

    /** The name by which the session has chosen its current catalog, or null if it has chosen none of these. */
    public static String current(CatalogManager manager, SQLConf conf) throws Exception {
        scala.Option chosen = (scala.Option) read(manager, "_currentCatalogName");
        if (chosen.isDefined() && manager.currentCatalog() == ours(manager, conf)) {
            return (String) chosen.get();
        }
        return null;
    }

    /** The session's catalog by its own settings. Spark goes by those of the calling thread, which may be no session's. */
    private static CatalogPlugin ours(CatalogManager manager, SQLConf conf) {
        return (CatalogPlugin) SQLConf$.MODULE$.withExistingConf(conf, new Ours(manager));
    }

    private static final class Ours extends scala.runtime.AbstractFunction0 {
        private final CatalogManager manager;

        Ours(CatalogManager manager) {
            this.manager = manager;
        }

        public Object apply() {
            return this.manager.v2SessionCatalog();
        }
    }

    private static Object read(Object owner, String name) throws Exception {
        for (Class type = owner.getClass(); type != null; type = type.getSuperclass()) { // a class of its own since Spark 4.3
            try {
                Field field = type.getDeclaredField(name);
                field.setAccessible(true);
                return field.get(owner);
            } catch (NoSuchFieldException above) {
                continue;
            }
        }
        throw new NoSuchFieldException(name);
    }
}
