package brickyard;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.BaseMetastoreCatalog;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.io.FileIO;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Iceberg's catalog of tables, in the workspace's metastore. Iceberg's own catalog for Spark (SparkSessionCatalog) asks it for each
 * table first, and Spark's catalog, which is SharedCatalog, for what is no Iceberg table. Compiled as IcebergFiles.java is.
 */
public final class IcebergTables extends BaseMetastoreCatalog {
    private final Set places = Collections.synchronizedSet(new HashSet()); // given to managed tables that are being created
    private String name;
    private SharedCatalog catalog;
    private IcebergEntries entries;
    private FileIO files;

    public void initialize(String name, Map properties) {
        this.name = name;
        this.catalog = SharedCatalog.ours();
        if (this.catalog == null) {
            throw new IllegalStateException("brickyard.IcebergTables needs the workspace's metastore, and this session has another catalog");
        }
        this.entries = new IcebergEntries(this.catalog);
        this.files = new IcebergFiles(this.catalog.conf);
    }

    public String name() {
        return this.name;
    }

    protected boolean isValidIdentifier(TableIdentifier table) {
        return table.namespace().levels().length == 1;
    }

    protected TableOperations newTableOps(TableIdentifier table) {
        return new IcebergOperations(this.entries, this.files, this.places, database(table.namespace()), spelled(table.name()));
    }

    protected String defaultWarehouseLocation(TableIdentifier table) {
        try {
            String place = this.entries.newPlace(database(table.namespace()), spelled(table.name()));
            this.places.add(place);
            return place;
        } catch (Exception error) {
            throw IcebergOperations.failure(error);
        }
    }

    public List listTables(Namespace namespace) {
        List found = new ArrayList();
        try {
            String database = database(namespace);
            List names = this.catalog.names(database, "table");
            for (int index = 0; index < names.size(); index++) {
                if (this.entries.metadata(database, (String) names.get(index)) != null) {
                    found.add(TableIdentifier.of(namespace, (String) names.get(index)));
                }
            }
        } catch (Exception error) {
            throw IcebergOperations.failure(error);
        }
        return found;
    }

    /** The rows of a managed table go with it, whether `purge` or not; those of others stay. */
    public boolean dropTable(TableIdentifier table, boolean purge) {
        try {
            String database = database(table.namespace());
            if (!isValidIdentifier(table) || this.entries.metadata(database, spelled(table.name())) == null) {
                return false;
            }
            this.catalog.face.dropTable(database, spelled(table.name()), true, purge);
            return true;
        } catch (Exception error) {
            throw IcebergOperations.failure(error);
        }
    }

    public void renameTable(TableIdentifier from, TableIdentifier to) {
        String database = database(from.namespace());
        if (!database.equals(database(to.namespace()))) {
            throw new UnsupportedOperationException("A table cannot be renamed into another database");
        }
        try {
            this.catalog.face.renameTable(database, spelled(from.name()), spelled(to.name()));
        } catch (Exception error) {
            if (error.getClass().getSimpleName().startsWith("NoSuchTable")) {
                throw new NoSuchTableException(error, "There is no table " + from, new Object[0]);
            } else if (error.getClass().getSimpleName().startsWith("TableAlreadyExists")) {
                throw new AlreadyExistsException(error, "The table " + to + " exists already", new Object[0]);
            }
            throw IcebergOperations.failure(error);
        }
    }

    private static String database(Namespace namespace) {
        return spelled(namespace.level(namespace.levels().length - 1));
    }

    /** As Spark's catalog spells names. */
    private static String spelled(String name) {
        return SQLConf.get().caseSensitiveAnalysis() ? name : name.toLowerCase(Locale.ROOT);
    }
}
