package brickyard;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URLEncoder;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase;
import org.apache.spark.sql.catalyst.catalog.CatalogFunction;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;

/**
 * Spark's catalog of tables in memory, with a copy in a directory: one file a database, replaced whole after every change and
 * before its caller goes on. So tables outlive the driver, and a driver that is killed leaves the state before or after a change.
 *
 * It stands in the place of the catalog that Spark has made, behind a class that is made for each version of that interface
 * (compile_classes.py). Compiled as NodeFiles.java is.
 */
public final class KeptCatalog implements InvocationHandler {
    private static final String SUFFIX = ".json";

    private static final int ROOM = 128 * 1024; // what a database's file may grow by in one change on a full disk

    private final ExternalCatalog inner;
    private final File directory;
    private final File draft;
    private final Configuration conf;
    private final CatalogMoves moves;

    private KeptCatalog(ExternalCatalog inner, File directory, Configuration conf) {
        this.inner = inner;
        this.directory = directory;
        this.draft = new File(directory, "draft");
        this.conf = conf;
        this.moves = new CatalogMoves(inner, conf, new File(directory, "moves"));
    }

    /**
     * Fill `shared` (an ExternalCatalogWithListener) from `path`, and keep it there from now on. Returns the names of files that
     * could not be read: they are set aside.
     */
    public static List keep(Object shared, String path, String writes, Configuration conf) throws Exception {
        Field field = shared.getClass().getDeclaredField("delegate");
        field.setAccessible(true);
        ExternalCatalog inner = (ExternalCatalog) field.get(shared);
        File directory = new File(path);
        Files.createDirectories(directory.toPath(), new java.nio.file.attribute.FileAttribute[0]);
        KeptCatalog kept = new KeptCatalog(inner, directory, conf);
        List unreadable = new ArrayList();
        try {
            kept.moves.recover();
        } catch (Exception error) {
            unreadable.add("moves: " + error);
        }
        unreadable.addAll(kept.load());
        try {
            kept.adopt(new File(writes));
        } catch (Exception error) {
            unreadable.add("partitions: " + error);
        }
        field.set(shared, new CatalogFace(kept));
        return unreadable;
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        boolean changes = changes(method.getName());
        if (!changes) {
            return call(method, arguments);
        }
        synchronized (this) {
            String database = database(arguments[0]);
            makeRoom(database, method.getName());
            Object result;
            this.moves.begin(method.getName(), arguments);
            try {
                result = call(method, arguments);
            } catch (Throwable error) {
                this.moves.settle();
                throw error;
            }
            keepCopy(database, method.getName());
            this.moves.done();
            return result;
        }
    }

    private void keepCopy(String database, String verb) throws Exception {
        try {
            save(database);
        } catch (IOException error) {
            if (!verb.startsWith("drop")) {
                throw new IOException(
                    "The change was made, and could not be kept in " + this.directory + " (" + error.getMessage()
                    + "): it is lost when the driver ends, unless a later one is kept. Remove files, or tables no longer needed.",
                    error);
            }
            this.moves.done(); // this makes room
            save(database);
        }
    }

    private Object call(Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(this.inner, arguments);
        } catch (InvocationTargetException wrapped) {
            throw wrapped.getCause();
        }
    }

    private static boolean changes(String name) {
        String[] verbs = new String[] {"create", "drop", "alter", "rename", "load"};
        for (int index = 0; index < verbs.length; index++) {
            if (name.startsWith(verbs[index])) {
                return true;
            }
        }
        return false;
    }

    /** Whose database a change is in, by its first argument. */
    private static String database(Object first) {
        if (first instanceof CatalogDatabase) {
            return ((CatalogDatabase) first).name();
        }
        return first instanceof CatalogTable ? ((CatalogTable) first).database() : (String) first;
    }

    // ── partitions ────────────────────────────────────────────────────────────────────────────────────────────────────────

    /** Take in the partitions of managed tables that the driver before this one has written and did not come to tell the catalog. */
    private void adopt(File writes) throws Exception {
        File[] files = writes.listFiles();
        for (int index = 0; files != null && index < files.length; index++) {
            Map record = (Map) new ObjectMapper().readValue(files[index], Map.class);
            if (record.containsKey("parted")) {
                adopt(new Path((String) record.get("path")), (List) record.get("parted"));
                Files.deleteIfExists(files[index].toPath());
            }
        }
    }

    private void adopt(Path path, List directories) throws Exception {
        for (scala.collection.Iterator each = this.inner.listDatabases().iterator(); each.hasNext();) {
            String database = (String) each.next();
            for (scala.collection.Iterator name = this.inner.listTables(database).iterator(); name.hasNext();) {
                CatalogTable table = this.inner.getTable(database, (String) name.next());
                boolean managed = table.tableType().equals(CatalogTableType.MANAGED());
                if (managed && table.tracksPartitionsInCatalog() && new Path(table.location()).toString().equals(path.toString())) {
                    List added = unknown(database, table, path, directories);
                    if (!added.isEmpty()) {
                        createPartitions(database, table, added);
                        save(database);
                    }
                }
            }
        }
    }

    private List unknown(String database, CatalogTable table, Path path, List directories) throws Exception {
        List found = new ArrayList();
        for (int index = 0; index < directories.size(); index++) {
            String directory = (String) directories.get(index);
            Map spec = new LinkedHashMap();
            String[] steps = directory.substring(path.toString().length() + 1).split("/");
            for (int step = 0; step < steps.length; step++) {
                int cut = steps[step].indexOf('=');
                spec.put(
                    ExternalCatalogUtils.unescapePathName(steps[step].substring(0, cut)),
                    ExternalCatalogUtils.unescapePathName(steps[step].substring(cut + 1)));
            }
            Object given = Codec.decode(Codec.kind("map", spec));
            Object known = this.inner.getPartitionOption(
                database, table.identifier().table(), (scala.collection.immutable.Map) given);
            Path place = new Path(directory);
            if (((scala.Option) known).isEmpty() && place.getFileSystem(this.conf).exists(place)) { // else it was dropped since
                Map storage = (Map) ((List) Codec.encode(table.storage())).get(1);
                storage.put("locationUri", Codec.kind("some", Codec.kind("uri", place.toUri().toString())));
                Map values = new LinkedHashMap();
                values.put("spec", Codec.kind("map", spec));
                values.put("storage", Codec.kind("case", storage));
                values.put("class", CatalogTablePartition.class.getName());
                found.add(Codec.kind("case", values));
            }
        }
        return found;
    }

    private void createPartitions(String database, CatalogTable table, List encoded) throws Exception {
        this.inner.createPartitions(
            database, table.identifier().table(), (scala.collection.immutable.List) Codec.decodeAll(encoded), true);
    }

    // ── the copy ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    private void save(String name) throws Exception {
        File file = file(name);
        if (!this.inner.databaseExists(name)) {
            Files.deleteIfExists(file.toPath());
            return;
        }
        List tables = new ArrayList();
        for (scala.collection.Iterator each = this.inner.listTables(name).iterator(); each.hasNext();) {
            CatalogTable table = this.inner.getTable(name, (String) each.next());
            Map entry = new LinkedHashMap();
            entry.put("table", Codec.encode(table));
            entry.put("partitions", partitions(name, table));
            tables.add(entry);
        }
        List functions = new ArrayList();
        for (scala.collection.Iterator each = this.inner.listFunctions(name, "*").iterator(); each.hasNext();) {
            functions.add(Codec.encode(this.inner.getFunction(name, (String) each.next())));
        }
        Map whole = new LinkedHashMap();
        whole.put("database", Codec.encode(this.inner.getDatabase(name)));
        whole.put("tables", tables);
        whole.put("functions", functions);
        replace(file, new ObjectMapper().writeValueAsBytes(whole));
    }

    private List partitions(String name, CatalogTable table) throws Exception {
        List found = new ArrayList();
        if (table.partitionColumnNames().iterator().hasNext()) {
            scala.collection.Iterator each =
                this.inner.listPartitions(name, table.identifier().table(), scala.Option.empty()).iterator();
            while (each.hasNext()) {
                found.add(Codec.encode(each.next()));
            }
        }
        return found;
    }

    private File file(String database) throws IOException {
        return new File(this.directory, URLEncoder.encode(database, "UTF-8") + SUFFIX);
    }

    /**
     * Takes the room that the copy will need before anything is changed: on a full disk a statement fails, and everything is as
     * before. What is dropped needs less room than it had, and must be possible on a full disk.
     */
    private void makeRoom(String database, String verb) throws IOException {
        try {
            RandomAccessFile stream = new RandomAccessFile(this.draft, "rw");
            try {
                long wanted = file(database).length() + ROOM;
                byte[] zeros = new byte[ROOM];
                for (long at = stream.length(); at < wanted; at += ROOM) {
                    stream.seek(at);
                    stream.write(zeros);
                }
            } finally {
                stream.close();
            }
        } catch (IOException error) {
            if (!verb.startsWith("drop")) {
                throw new IOException(
                    "Nothing was changed: what Spark knows of tables could not be kept in " + this.directory + " ("
                    + error.getMessage() + "). Remove files, or tables that are no longer needed.", error);
            }
        }
    }

    /** Written over the room that was taken, which becomes the file. */
    private void replace(File file, byte[] data) throws IOException {
        RandomAccessFile stream = new RandomAccessFile(this.draft, "rw");
        try {
            stream.write(data);
            stream.setLength(data.length);
            stream.getFD().sync();
        } finally {
            stream.close();
        }
        Files.move(this.draft.toPath(), file.toPath(), new java.nio.file.CopyOption[] {StandardCopyOption.ATOMIC_MOVE});
    }

    private List load() throws Exception {
        List unreadable = new ArrayList();
        File[] files = this.directory.listFiles();
        Arrays.sort(files);
        for (int index = 0; index < files.length; index++) {
            if (files[index].getName().endsWith(SUFFIX)) {
                int before = unreadable.size();
                try {
                    load((Map) new ObjectMapper().readValue(files[index], Map.class), unreadable);
                } catch (Exception error) {
                    unreadable.add(files[index].getName() + ": " + error);
                }
                if (unreadable.size() > before) { // the next change writes what is known
                    File aside = new File(files[index].getPath() + ".unreadable");
                    Files.copy(files[index].toPath(), aside.toPath(),
                        new java.nio.file.CopyOption[] {StandardCopyOption.REPLACE_EXISTING});
                }
            }
        }
        return unreadable;
    }

    private void load(Map whole, List unreadable) throws Exception {
        CatalogDatabase database = (CatalogDatabase) Codec.decode(whole.get("database"));
        if (this.inner.databaseExists(database.name())) {
            this.inner.alterDatabase(database); // `default`, which Spark makes by itself
        } else {
            this.inner.createDatabase(database, true);
        }
        List tables = (List) whole.get("tables");
        for (int index = 0; index < tables.size(); index++) {
            Map entry = (Map) tables.get(index);
            try {
                load(database.name(), entry);
            } catch (Exception error) {
                unreadable.add(database.name() + ": " + entry.get("table") + ": " + error);
            }
        }
        List functions = (List) whole.get("functions");
        for (int index = 0; index < functions.size(); index++) {
            this.inner.createFunction(database.name(), (CatalogFunction) Codec.decode(functions.get(index)));
        }
    }

    private void load(String database, Map entry) throws Exception {
        CatalogTable table = (CatalogTable) Codec.decode(entry.get("table"));
        this.inner.createTable(table, true);
        List parts = (List) entry.get("partitions");
        if (!parts.isEmpty()) { // a view has no place that partitions could be in
            createPartitions(database, table, parts);
        }
    }
}
