package brickyard;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase;
import org.apache.spark.sql.catalyst.catalog.CatalogFunction;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.InMemoryCatalog;

/** A file system on which everything succeeds and nothing happens. */
final class PaperFiles extends RawLocalFileSystem {
    protected void checkPath(Path path) {
        return; // all file systems' paths are on it
    }

    public boolean mkdirs(Path path) {
        return true;
    }

    public boolean mkdirs(Path path, FsPermission permission) {
        return true;
    }

    public boolean rename(Path from, Path to) {
        return true;
    }

    public boolean delete(Path path, boolean recursive) {
        return true;
    }
}

/** Settings with which every path is in that file system. */
final class PaperConf extends Configuration {
    PaperConf() {
        super(false);
    }

    public Class getClass(String name, Class otherwise) {
        return name.startsWith("fs.") && name.endsWith(".impl") ? PaperFiles.class : super.getClass(name, otherwise);
    }

    public boolean getBoolean(String name, boolean otherwise) {
        return name.endsWith(".impl.disable.cache") || super.getBoolean(name, otherwise);
    }
}

/**
 * A part of the workspace's metastore as one of Spark's own catalogs in memory, which says what a call answers, which errors it
 * has and what a change comes to. It has a database and the entries that a call names, and touches no file. Compiled as
 * NodeFiles.java is.
 */
public final class CatalogPaper {
    public static final String MANAGED = "brickyard.managed"; // a property of tables that Spark takes for external: their rows go too
    public static final String UNFINISHED = "unfinished"; // in a description: a list of pairs; from, and to ("": remove it)

    private static final String CATALOG = "spark.sql.catalog.spark_catalog";
    private static final String CATALOG_OF_VIEW = "view.sqlConfig." + CATALOG;

    public final InMemoryCatalog catalog = new InMemoryCatalog(new SparkConf(false), new PaperConf());
    public final Map versions = new LinkedHashMap(); // name -> version, "" for what is not there; the database's under ""
    public final Map texts = new LinkedHashMap(); // name -> the description as it is kept
    public final Map unfinished = new LinkedHashMap(); // name -> files that are still to be moved
    public final String database;
    public final String kind;

    CatalogPaper(String database, String kind) {
        this.database = database;
        this.kind = kind;
    }

    /** What the agent found: each name's version and text. `standard`: see SharedCatalog; `place`: where new tables are. */
    static CatalogPaper of(String database, String kind, Map found, CatalogDatabase standard, String place) throws Exception {
        CatalogPaper paper = new CatalogPaper(database, kind);
        for (java.util.Iterator each = found.entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            Map held = (Map) entry.getValue();
            paper.versions.put(entry.getKey(), held == null ? "" : (String) held.get("version"));
            if (held != null) {
                paper.texts.put(entry.getKey(), held.get("text"));
            }
        }
        paper.addDatabase(standard, place);
        for (java.util.Iterator each = paper.texts.keySet().iterator(); each.hasNext();) {
            String name = (String) each.next();
            if (!name.isEmpty()) {
                paper.add(name, CatalogChannel.unpacked((String) paper.texts.get(name)));
            }
        }
        return paper;
    }

    String version(String name) {
        return (String) this.versions.get(name);
    }

    private void addDatabase(CatalogDatabase standard, String place) throws Exception {
        String text = (String) this.texts.get("");
        boolean usual = this.database.equals(standard.name());
        if (text == null && !usual) {
            return;
        }
        List encoded = text == null ? (List) CatalogCodec.encode(standard) : (List) CatalogChannel.unpacked(text).get("database");
        Map fields = (Map) encoded.get(1);
        fields.put("name", this.database);
        if (usual) { // each cluster may put its own tables elsewhere
            fields.put("locationUri", CatalogCodec.kind("uri", standard.locationUri().toString()));
        }
        CatalogDatabase found = (CatalogDatabase) CatalogCodec.decode(encoded);
        this.catalog.createDatabase(place.isEmpty() ? found : located(found, place), false);
    }

    /** The same database, in a directory of its own below its location. */
    static CatalogDatabase located(CatalogDatabase database, String place) throws Exception {
        List encoded = (List) CatalogCodec.encode(database);
        Path path = new Path(new Path(database.locationUri()), place);
        ((Map) encoded.get(1)).put("locationUri", CatalogCodec.kind("uri", path.toUri().toString()));
        return (CatalogDatabase) CatalogCodec.decode(encoded);
    }

    private void add(String name, Map tree) throws Exception {
        try {
            if (this.kind.equals("function")) {
                rename((List) tree.get("function"), "funcName", name);
                this.catalog.createFunction(this.database, (CatalogFunction) CatalogCodec.decode(tree.get("function")));
                return;
            }
            if (tree.get(UNFINISHED) != null) {
                this.unfinished.put(name, tree.get(UNFINISHED));
            }
            rename((List) tree.get("table"), "table", name);
            useOwnCatalog((Map) ((List) tree.get("table")).get(1));
            CatalogTable table = (CatalogTable) CatalogCodec.decode(tree.get("table"));
            this.catalog.createTable(table, true);
            List parts = (List) tree.get("partitions");
            if (parts != null && !parts.isEmpty()) { // a view has no place that partitions could be in
                this.catalog.createPartitions(
                    this.database, name, (scala.collection.immutable.List) CatalogCodec.decodeAll(parts), true);
            }
        } catch (Exception error) {
            throw new IOException(
                "The " + this.kind + " " + this.database + "." + name + " is in the workspace's metastore, and this version of "
                + "Spark cannot read its description (" + error + "). Use it on a cluster of the version that it was made with.",
                error);
        }
    }

    /** An entry's name is its file's: a rename does not write the description. */
    private void rename(List described, String field, String name) {
        Map identifier = (Map) ((List) ((Map) described.get(1)).get("identifier")).get(1);
        identifier.put(field, name);
        identifier.put("database", CatalogCodec.kind("some", this.database));
    }

    /**
     * Spark keeps the settings of the cluster that makes a view with the view, and applies them wherever it is read. The class of
     * the catalog is another one on clusters with Iceberg, so it is always that of the cluster that reads.
     */
    private void useOwnCatalog(Map fields) throws Exception {
        Map properties = (Map) ((List) fields.get("properties")).get(1);
        if (properties.remove(CATALOG_OF_VIEW) != null) {
            String own = ((SparkContext) org.apache.spark.SparkContext$.MODULE$.getActive().get()).conf().get(CATALOG, "");
            if (!own.isEmpty()) {
                properties.put(CATALOG_OF_VIEW, own);
            }
        }
    }

    /** The description of an entry as it is now. */
    Map described(String name) throws Exception {
        Map tree = new LinkedHashMap();
        if (this.kind.equals("function")) {
            tree.put("function", CatalogCodec.encode(this.catalog.getFunction(this.database, name)));
            return tree;
        }
        CatalogTable table = this.catalog.getTable(this.database, name);
        List parts = new ArrayList();
        if (table.partitionColumnNames().iterator().hasNext()) {
            scala.collection.Iterator each = this.catalog.listPartitions(this.database, name, scala.Option.empty()).iterator();
            while (each.hasNext()) {
                parts.add(CatalogCodec.encode(each.next()));
            }
        }
        tree.put("table", CatalogCodec.encode(table));
        tree.put("partitions", parts);
        return tree;
    }
}
