package brickyard;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.types.StructType;

/**
 * Iceberg tables in the workspace's metastore. An entry names the table's present metadata file, as in Hive's metastore. Compiled as
 * IcebergFiles.java is.
 */
final class IcebergEntries {
    private static final int ATTEMPTS = 200;
    private static final String TABLE = "table", METADATA = "metadata_location", PREVIOUS = "previous_metadata_location";

    private final SharedCatalog catalog;

    IcebergEntries(SharedCatalog catalog) {
        this.catalog = catalog;
    }

    /** Where a new managed table is to be. */
    String newPlace(String database, String name) throws Exception {
        CatalogPaper paper = this.catalog.look(database, TABLE, new String[0]);
        checkDatabase(paper);
        CatalogDatabase found = CatalogPaper.located(paper.catalog.getDatabase(database), CatalogRows.place());
        return new Path(new Path(found.locationUri()), name).toString();
    }

    /** The present metadata file of an Iceberg table, or null if there is no such table. */
    String metadata(String database, String name) throws Exception {
        return metadata(this.catalog.look(database, TABLE, new String[] {name}), name);
    }

    private static String metadata(CatalogPaper paper, String name) throws Exception {
        if (paper.version(name).isEmpty()) {
            return null;
        }
        scala.Option found = paper.catalog.getTable(paper.database, name).properties().get(METADATA);
        return found.isDefined() ? (String) found.get() : null;
    }

    /**
     * Has the table's entry name another metadata file if it names `expected` (null: there must be no entry yet), as one change.
     * False: it does not. `described`: the table's location and schema as it is then.
     */
    boolean put(String database, String name, String expected, String written, String location, StructType schema, boolean managed)
        throws Exception {
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            CatalogPaper paper = this.catalog.ask(database, TABLE, new String[] {name}, "", null);
            checkDatabase(paper);
            boolean there = !paper.version(name).isEmpty();
            if (expected == null ? there : !expected.equals(metadata(paper, name))) {
                return false;
            }
            Map tree = there ? paper.described(name) : made(database, name, managed);
            Map table = (Map) ((List) tree.get(TABLE)).get(1);
            table.put("schema", CatalogCodec.encode(schema));
            Map storage = (Map) ((List) table.get("storage")).get(1);
            storage.put("locationUri", CatalogCodec.kind("some", CatalogCodec.kind("uri", new Path(location).toUri().toString())));
            Map properties = (Map) ((List) table.get("properties")).get(1);
            properties.put(METADATA, written);
            if (expected != null) {
                properties.put(PREVIOUS, expected);
            }
            if (this.catalog.channel.put(database, TABLE, name, paper.version(name), tree) != null) {
                return true;
            }
            Thread.sleep(Math.min(attempt, 20)); // the entry was changed meanwhile, perhaps renamed
        }
        throw new IOException("Nothing was changed: other clusters change " + database + "." + name + " all the time. Try again.");
    }

    /**
     * A new entry. For Spark the table is external, also if it is managed: statements that change the files of Spark's own tables
     * (TRUNCATE TABLE on a cluster without Iceberg) must not touch these.
     */
    private static Map made(String database, String name, boolean managed) throws Exception {
        Map properties = new LinkedHashMap();
        properties.put("table_type", "ICEBERG");
        properties.put("EXTERNAL", "TRUE");
        if (managed) {
            properties.put(CatalogPaper.MANAGED, "true");
        }
        Map table = new LinkedHashMap();
        table.put("class", CatalogTable.class.getName());
        table.put("identifier", CatalogCodec.encode(new TableIdentifier(name, scala.Option.apply(database))));
        table.put("tableType", CatalogCodec.encode(CatalogTableType.EXTERNAL()));
        table.put("storage", CatalogCodec.encode(CatalogStorageFormat.empty()));
        table.put("provider", CatalogCodec.kind("some", "iceberg"));
        table.put("properties", CatalogCodec.kind("map", properties));
        Map tree = new LinkedHashMap();
        tree.put(TABLE, CatalogCodec.kind("case", table));
        tree.put("partitions", new ArrayList());
        return tree;
    }

    private static void checkDatabase(CatalogPaper paper) {
        if (!paper.catalog.databaseExists(paper.database)) {
            throw new NoSuchNamespaceException("There is no database " + paper.database, new Object[0]);
        }
    }
}
