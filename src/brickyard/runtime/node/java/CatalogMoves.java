package brickyard;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;

/**
 * Directories that move with a change of the catalog, with a record of them until the change is kept. Without it a driver that is
 * killed in the middle leaves a table without some of its rows.
 *
 * What is dropped is renamed first, and removed when the catalog no longer knows it. After a kill the catalog's copy decides:
 * what it still knows is moved back. Compiled as NodeFiles.java is.
 */
final class CatalogMoves {
    private static final String ASIDE = "_dropped-"; // readers ignore names with "_"

    private final ExternalCatalog inner;
    private final Configuration conf;
    private final File record;
    private List moves = new ArrayList(); // each: from, to; strings

    CatalogMoves(ExternalCatalog inner, Configuration conf, File record) {
        this.inner = inner;
        this.conf = conf;
        this.record = record;
    }

    /** Before the change. Moves aside what it will drop. */
    void begin(String verb, Object[] arguments) throws Exception {
        this.moves = new ArrayList();
        boolean drops = verb.startsWith("drop");
        if (verb.equals("dropTable")) {
            dropTable((String) arguments[0], (String) arguments[1]);
        } else if (verb.equals("dropDatabase")) {
            dropDatabase((String) arguments[0], ((Boolean) arguments[2]).booleanValue());
        } else if (verb.equals("dropPartitions") && !((Boolean) arguments[5]).booleanValue()) {
            dropPartitions((String) arguments[0], (String) arguments[1], (scala.collection.Seq) arguments[2]);
        } else if (verb.equals("renameTable")) {
            renameTable((String) arguments[0], (String) arguments[1], (String) arguments[2]);
        } else if (verb.equals("renamePartitions")) {
            renamePartitions((String) arguments[0], (String) arguments[1], (scala.collection.Seq) arguments[2],
                (scala.collection.Seq) arguments[3]);
        }
        if (this.moves.isEmpty()) {
            return;
        }
        try {
            File draft = new File(this.record.getPath() + ".draft");
            Files.write(draft.toPath(), new ObjectMapper().writeValueAsBytes(this.moves), new java.nio.file.OpenOption[0]);
            Files.move(draft.toPath(), this.record.toPath(),
                new java.nio.file.CopyOption[] {StandardCopyOption.ATOMIC_MOVE});
        } catch (IOException error) {
            this.moves.clear();
            if (drops) { // a full disk: it must be possible to make room
                return;
            }
            throw error;
        }
        for (int index = 0; drops && index < this.moves.size(); index++) {
            move(move(index, 0), move(index, 1));
        }
    }

    /** After the change is kept. */
    void done() throws IOException {
        if (this.moves.isEmpty()) {
            return;
        }
        for (int index = 0; index < this.moves.size(); index++) {
            remove(move(index, 1));
        }
        Files.deleteIfExists(this.record.toPath());
    }

    /** The change failed, or a driver was killed: what the catalog's copy knows goes back to its place. */
    void settle() throws Exception {
        Set known = this.moves.isEmpty() ? new HashSet() : locations();
        for (int index = 0; index < this.moves.size(); index++) {
            Path from = move(index, 0);
            Path to = move(index, 1);
            if (known.contains(from.toString())) {
                if (fs(to).exists(to) && !fs(from).exists(from)) {
                    move(to, from);
                }
            } else {
                remove(to);
            }
        }
        Files.deleteIfExists(this.record.toPath());
    }

    /** What a driver before this one has left, before the catalog is filled: that makes directories where they are missing. */
    void recover() throws Exception {
        if (this.record.exists()) {
            this.moves = (List) new ObjectMapper().readValue(this.record, List.class);
            settle();
        }
    }

    // ── what moves ────────────────────────────────────────────────────────────────────────────────────────────────────────

    private void dropTable(String database, String name) throws Exception {
        if (this.inner.databaseExists(database) && this.inner.tableExists(database, name) && managed(database, name)) {
            aside(new Path(this.inner.getTable(database, name).location()));
        }
    }

    private void dropDatabase(String name, boolean cascade) throws Exception {
        if (this.inner.databaseExists(name)) {
            boolean empty = this.inner.listTables(name).isEmpty() && this.inner.listFunctions(name, "*").isEmpty();
            if (cascade || empty) {
                aside(new Path(this.inner.getDatabase(name).locationUri()));
            }
        }
    }

    private void dropPartitions(String database, String name, scala.collection.Seq specs) throws Exception {
        if (!this.inner.tableExists(database, name) || !managed(database, name)) {
            return;
        }
        for (scala.collection.Iterator each = specs.iterator(); each.hasNext();) {
            scala.Option found = this.inner.getPartitionOption(database, name, nullable(each.next()));
            if (found.isDefined()) {
                aside(new Path(((CatalogTablePartition) found.get()).location()));
            }
        }
    }

    private void renameTable(String database, String name, String other) throws Exception {
        if (this.inner.tableExists(database, name) && managed(database, name)) {
            Path from = new Path(this.inner.getTable(database, name).location());
            note(from, new Path(new Path(this.inner.getDatabase(database).locationUri()), other));
        }
    }

    private void renamePartitions(String database, String name, scala.collection.Seq olds, scala.collection.Seq news)
        throws Exception {
        if (!this.inner.tableExists(database, name) || !managed(database, name)) {
            return;
        }
        CatalogTable table = this.inner.getTable(database, name);
        scala.collection.Iterator other = news.iterator();
        for (scala.collection.Iterator each = olds.iterator(); each.hasNext() && other.hasNext();) {
            scala.Option found = this.inner.getPartitionOption(database, name, nullable(each.next()));
            Path to = ExternalCatalogUtils.generatePartitionPath(
                nullable(other.next()), table.partitionColumnNames(), new Path(table.location()));
            if (found.isDefined()) {
                note(new Path(((CatalogTablePartition) found.get()).location()), to);
            }
        }
    }

    private static scala.collection.immutable.Map nullable(Object spec) {
        return ExternalCatalogUtils.convertNullPartitionValues((scala.collection.immutable.Map) spec);
    }

    private boolean managed(String database, String name) {
        return this.inner.getTable(database, name).tableType().equals(CatalogTableType.MANAGED());
    }

    private void aside(Path from) throws IOException {
        if (from.getParent() != null && fs(from).exists(from)) {
            note(from, new Path(from.getParent(), ASIDE + UUID.randomUUID()));
        }
    }

    private void note(Path from, Path to) {
        String scheme = from.toUri().getScheme();
        if ("file".equals(scheme) || "dbfs".equals(scheme)) { // elsewhere a rename may be a copy
            this.moves.add(Arrays.asList(new Object[] {from.toString(), to.toString()}));
        }
    }

    // ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    private Path move(int index, int side) {
        return new Path((String) ((List) this.moves.get(index)).get(side));
    }

    private void move(Path from, Path to) throws IOException {
        if (!fs(from).rename(from, to)) {
            throw new IOException("The directory " + from + " cannot be moved to " + to + ".");
        }
    }

    /** Only what was moved aside: a table that was renamed stays where it is. */
    private void remove(Path path) throws IOException {
        if (path.getName().startsWith(ASIDE)) {
            fs(path).delete(path, true);
        }
    }

    private FileSystem fs(Path path) throws IOException {
        return path.getFileSystem(this.conf);
    }

    /** Every place that the copy names. */
    private Set locations() throws Exception {
        Set found = new HashSet();
        File[] files = this.record.getParentFile().listFiles();
        for (int index = 0; index < files.length; index++) {
            if (files[index].getName().endsWith(".json")) {
                locations(new ObjectMapper().readValue(files[index], Object.class), found);
            }
        }
        return found;
    }

    private static void locations(Object tree, Set found) throws Exception {
        java.util.Collection parts = new ArrayList();
        if (tree instanceof List && ((List) tree).size() == 2 && "uri".equals(((List) tree).get(0))) {
            found.add(new Path(new URI((String) ((List) tree).get(1))).toString());
        } else if (tree instanceof java.util.Collection) {
            parts = (java.util.Collection) tree;
        } else if (tree instanceof Map) {
            parts = ((Map) tree).values();
        }
        for (java.util.Iterator each = parts.iterator(); each.hasNext();) {
            locations(each.next(), found);
        }
    }
}
