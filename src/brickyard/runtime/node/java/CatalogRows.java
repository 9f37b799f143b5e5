package brickyard;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;

/**
 * The directories of tables: what a change of the catalog makes, moves and removes of them. A managed table made by default is in
 * DATABASE/PLACE/TABLE, where PLACE was never used before. Compiled as NodeFiles.java is.
 */
final class CatalogRows {
    private static final String PLACE = "[0-9a-f]{32}";
    private static final String ASIDE = "_dropped-"; // readers ignore names with "_"

    private final Configuration conf;
    private final CarefulFiles careful;
    private final String warehouse;

    /** `warehouse`: where this cluster makes tables. */
    CatalogRows(Configuration conf, Path warehouse) throws IOException {
        this.conf = conf;
        this.warehouse = warehouse + "/";
        this.careful = new CarefulFiles(conf);
    }

    static String place() {
        return UUID.randomUUID().toString().replace("-", "");
    }

    // ── before a change is sent ───────────────────────────────────────────────────────────────────────────────────────────

    /** The files that a change is to move when it is made: pairs; from, and to ("": it is removed). */
    List moves(String verb, CatalogPaper paper, Object[] arguments) throws Exception {
        List found = new ArrayList();
        boolean drops = verb.equals("dropPartitions") && !((Boolean) arguments[5]).booleanValue();
        if (!drops && !verb.equals("renamePartitions")) {
            return found;
        }
        String name = (String) arguments[1];
        if (!paper.catalog.tableExists(paper.database, name) || !managed(paper.catalog.getTable(paper.database, name))) {
            return found;
        }
        CatalogTable table = paper.catalog.getTable(paper.database, name);
        scala.collection.Iterator other = drops ? null : ((scala.collection.Seq) arguments[3]).iterator();
        for (scala.collection.Iterator each = ((scala.collection.Seq) arguments[2]).iterator(); each.hasNext();) {
            scala.Option part = paper.catalog.getPartitionOption(paper.database, name, nullable(each.next()));
            String to = drops ? "" : ExternalCatalogUtils.generatePartitionPath(
                nullable(other.next()), table.partitionColumnNames(), new Path(table.location())).toString();
            Path from = part.isDefined() ? new Path(((CatalogTablePartition) part.get()).location()) : null;
            if (from != null && isRemoved(from)) {
                found.add(Arrays.asList(new Object[] {from.toString(), to}));
            } else if (from != null && !drops) {
                throw new IOException("Nothing was changed: the partition's files are in " + from + ", outside dbfs:/.");
            }
        }
        return found;
    }

    private static scala.collection.immutable.Map nullable(Object spec) {
        return ExternalCatalogUtils.convertNullPartitionValues((scala.collection.immutable.Map) spec);
    }

    private static boolean managed(CatalogTable table) {
        return table.tableType().equals(CatalogTableType.MANAGED());
    }

    /** Makes the directories that a table or its partitions will have. */
    void make(String verb, CatalogPaper paper, String name, Object[] arguments) throws Exception {
        if (verb.equals("createTable") && managed(paper.catalog.getTable(paper.database, name))) {
            makeDirectory(new Path(paper.catalog.getTable(paper.database, name).location()));
        } else if (verb.equals("createPartitions")) {
            for (scala.collection.Iterator each = ((scala.collection.Seq) arguments[2]).iterator(); each.hasNext();) {
                Object spec = nullable(((CatalogTablePartition) each.next()).spec());
                scala.Option part = paper.catalog.getPartitionOption(
                    paper.database, name, (scala.collection.immutable.Map) spec);
                makeDirectory(new Path(((CatalogTablePartition) part.get()).location()));
            }
        }
    }

    void makeDirectory(Path path) throws IOException {
        if (!fs(path).mkdirs(path)) {
            throw new IOException("Nothing was changed: the directory " + path + " cannot be made.");
        }
    }

    // ── after a change is made ────────────────────────────────────────────────────────────────────────────────────────────

    /** As often as you like. With `strangers`, they are another driver's, which a stranger may have written: only those in the
     * workspace's files, where all clusters may write. */
    void perform(List moves, boolean strangers) throws IOException {
        for (int index = 0; index < moves.size(); index++) {
            String to = (String) ((List) moves.get(index)).get(1);
            Path from = new Path((String) ((List) moves.get(index)).get(0));
            if (strangers && !(this.careful.has(from.toString()) && (to.isEmpty() || this.careful.has(to)))) {
                continue;
            }
            FileSystem fs = strangers ? this.careful : fs(from);
            if (!fs.exists(from)) {
                continue;
            }
            Path target = to.isEmpty() ? new Path(from.getParent(), ASIDE + place()) : new Path(to);
            if (to.isEmpty() || !fs.exists(target)) {
                fs.mkdirs(target.getParent());
                fs.rename(from, target);
            }
            if (to.isEmpty()) {
                fs.delete(target, true);
            }
        }
    }

    /** Removes the rows of managed tables that were dropped; with `strangers`, only where nothing but a table's rows can be. */
    void remove(java.util.Collection texts, boolean strangers) throws IOException {
        for (java.util.Iterator each = texts.iterator(); each.hasNext();) {
            Map tree = CatalogChannel.unpacked((String) each.next());
            if (tree.get("table") == null) {
                continue;
            }
            Map table = (Map) ((List) tree.get("table")).get(1);
            String place = location(table);
            boolean managed = "MANAGED".equals(((Map) ((List) table.get("tableType")).get(1)).get("name"))
                || ((Map) ((List) table.get("properties")).get(1)).containsKey(CatalogPaper.MANAGED);
            if (!managed || place.isEmpty()) {
                continue;
            }
            Path path = new Path(place);
            if (!isRemoved(path)) {
                continue;
            }
            boolean own = path.getParent().getName().matches(PLACE);
            if (own && (!strangers || this.careful.has(place))) {
                (strangers ? this.careful : fs(path)).delete(path.getParent(), true);
            } else if (!strangers) {
                fs(path).delete(path, true);
            }
            List parts = (List) tree.get("partitions");
            for (int number = 0; !strangers && parts != null && number < parts.size(); number++) {
                Path part = new Path(location((Map) ((List) parts.get(number)).get(1)));
                if (!part.toString().startsWith(path + "/") && isRemoved(part)) {
                    fs(part).delete(part, true);
                }
            }
        }
    }

    /** Any cluster may have written the description: it must not lead this one to remove files that only it sees. */
    private boolean isRemoved(Path path) {
        return "dbfs".equals(path.toUri().getScheme()) || path.toString().startsWith(this.warehouse);
    }

    /** Where the rows of an encoded table or partition are; "" if it has none. */
    static String location(Map described) {
        Map storage = (Map) ((List) described.get("storage")).get(1);
        List given = (List) storage.get("locationUri");
        return "some".equals(given.get(0)) ? (String) ((List) given.get(1)).get(1) : "";
    }

    /** A database's directory may hold files that are not its tables'. */
    void removeEmpty(Path path) {
        try {
            if (path != null) {
                fs(path).delete(path, false);
            }
        } catch (IOException other) {
            return;
        }
    }

    // ── partitions that were written and not told ─────────────────────────────────────────────────────────────────────────

    /** Those of `directories` that are there, and are no partitions of the table yet; encoded. */
    List unknown(CatalogPaper paper, CatalogTable table, List directories) throws Exception {
        List found = new ArrayList();
        String top = new Path(table.location()).toString();
        for (int index = 0; index < directories.size(); index++) {
            Path place = new Path((String) directories.get(index));
            Map spec = spec(place.toString().substring(top.length() + 1));
            Object given = CatalogCodec.decode(CatalogCodec.kind("map", spec));
            scala.Option known = paper.catalog.getPartitionOption(
                paper.database, table.identifier().table(), (scala.collection.immutable.Map) given);
            if (known.isEmpty() && fs(place).exists(place)) { // else it was dropped since
                Map storage = (Map) ((List) CatalogCodec.encode(table.storage())).get(1);
                storage.put("locationUri", CatalogCodec.kind("some", CatalogCodec.kind("uri", place.toUri().toString())));
                Map values = new LinkedHashMap();
                values.put("spec", CatalogCodec.kind("map", spec));
                values.put("storage", CatalogCodec.kind("case", storage));
                values.put("class", CatalogTablePartition.class.getName());
                found.add(CatalogCodec.kind("case", values));
            }
        }
        return found;
    }

    private static Map spec(String relative) {
        Map found = new LinkedHashMap();
        String[] steps = relative.split("/");
        for (int step = 0; step < steps.length; step++) {
            int cut = steps[step].indexOf('=');
            found.put(
                ExternalCatalogUtils.unescapePathName(steps[step].substring(0, cut)),
                ExternalCatalogUtils.unescapePathName(steps[step].substring(cut + 1)));
        }
        return found;
    }

    FileSystem fs(Path path) throws IOException {
        return path.getFileSystem(this.conf);
    }
}
