package brickyard;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase;
import org.apache.spark.sql.catalyst.catalog.CatalogFunction;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;
import org.apache.spark.sql.catalyst.util.StringUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Spark's catalog of tables, the same for all clusters of the workspace: every call asks the metastore (CatalogChannel) for the
 * entries that it names, and is done on paper (CatalogPaper). A change is sent back with the version that it was made for; if
 * another cluster has changed the entry meanwhile, it is made again.
 *
 * Every managed table has a directory of its own, which no other table ever had. So a change is one change of one entry: a table
 * that is renamed stays where it is, and one that is dropped is gone when the metastore says so; its rows are removed after that.
 *
 * It stands in the place of the catalog that Spark has made, behind a class that is made for each version of that interface
 * (compile_classes.py). Compiled as NodeFiles.java is.
 */
public final class SharedCatalog implements InvocationHandler {
    private static final int ATTEMPTS = 200;
    private static final int PAPERS = 1000; // kept, so that what has not changed is not sent again
    private static final long LOOK_NS = 1000000000L;
    private static final Logger LOG = LoggerFactory.getLogger(SharedCatalog.class);
    private static final String TABLE = "table";
    private static final String FUNCTION = "function";
    private static final String SQL = "sqlFunction."; // how Spark marks a function whose body is SQL
    private static final String[] CHANGES = new String[] {"create", "drop", "alter", "rename", "load"};

    private static volatile SharedCatalog ours; // this driver's: Spark makes the catalogs of other formats itself

    public final CatalogChannel channel;
    private final CatalogDatabase standard; // `default` with this cluster's settings
    public final Configuration conf;
    private final boolean apart; // users share the driver's JVM and must bring no code into it (UserGuard.java)
    private final CatalogRows rows;
    private final Overwrites overwrites = new Overwrites();
    public ExternalCatalog face; // itself, as Spark calls it
    private long looked; // System.nanoTime() when others' unfinished writes were looked for
    private final Map papers = Collections.synchronizedMap(new LinkedHashMap());

    private SharedCatalog(CatalogChannel channel, CatalogDatabase standard, Configuration conf, boolean apart) throws IOException {
        this.channel = channel;
        this.standard = standard;
        this.conf = conf;
        this.apart = apart;
        this.rows = new CatalogRows(conf, new Path(standard.locationUri()));
    }

    /** Puts the workspace's catalog in the place of the one in `shared` (an ExternalCatalogWithListener). Asks nothing yet. */
    public static SharedCatalog keep(Object shared, CatalogChannel channel, Configuration conf, boolean apart) throws Exception {
        Field field = shared.getClass().getDeclaredField("delegate");
        field.setAccessible(true);
        ExternalCatalog inner = (ExternalCatalog) field.get(shared);
        SharedCatalog catalog = new SharedCatalog(channel, inner.getDatabase("default"), conf, apart);
        catalog.face = new CatalogFace(catalog);
        field.set(shared, catalog.face);
        ours = catalog;
        return catalog;
    }

    static SharedCatalog ours() {
        return ours;
    }

    /** Moves here what `directory` has of the tables of this cluster alone. Returns what could not be moved. */
    public List moveIn(String directory, String cluster) {
        return new ClusterTables(this.channel, this.conf, new File(directory), cluster, this.standard).moveIn();
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        String verb = method.getName();
        if (verb.equals("setCurrentDatabase")) {
            return null; // each session has its own
        }
        if (verb.equals("listDatabases")) {
            return matching(databases(), arguments, 0);
        }
        String database = database(arguments[0]);
        if (database.equals(InformationColumns.SCHEMA) && !databases().contains(database)) {
            if (changes(verb)) {
                throw InformationViews.refused();
            }
            return InformationViews.call(method, arguments, this.standard);
        }
        if (verb.equals("listTables") || verb.equals("listFunctions") || verb.equals("listViews")) {
            look(database, TABLE, new String[0]).catalog.listTables(database); // fails if there is no such database
            List names = names(database, verb.equals("listFunctions") ? FUNCTION : TABLE);
            return matching(verb.equals("listViews") ? views(database, names) : names, arguments, 1);
        }
        String kind = verb.toLowerCase(java.util.Locale.ROOT).indexOf(FUNCTION) >= 0 ? FUNCTION : TABLE;
        String[] named = verb.equals("getTablesByName") ? strings((scala.collection.Seq) arguments[1]) : named(verb, arguments);
        if (verb.equals("dropTable") && this.overwrites.begins(database, named[0])) {
            return null;
        }
        if (verb.equals("tableExists") && this.overwrites.goesOn(database, named[0])) {
            return Boolean.FALSE;
        }
        if (!changes(verb)) {
            Object found = call(method, look(database, kind, named), arguments);
            if (this.apart && verb.equals("getFunction") && !((CatalogFunction) found).className().startsWith(SQL)) {
                throw new SecurityException(
                    "The function " + database + "." + named[0] + " is made of a class, which cannot be used here: this cluster keeps "
                    + "its users apart (data_security_mode USER_ISOLATION), and all of them share the driver's JVM. Use a cluster with "
                    + "data_security_mode SINGLE_USER or NONE.");
            }
            if (this.apart && found instanceof CatalogTable) {
                inspect((CatalogTable) found);
            } else if (this.apart && verb.equals("getTablesByName")) {
                for (scala.collection.Iterator each = ((scala.collection.Iterable) found).iterator(); each.hasNext();) {
                    inspect((CatalogTable) each.next());
                }
            }
            return verb.equals("getDatabase") && forTable()
                ? CatalogPaper.located((CatalogDatabase) found, CatalogRows.place()) : found;
        }
        return change(method, arguments, database, kind, named);
    }

    /** Another cluster may have given a table options that are refused here. */
    private static void inspect(CatalogTable table) {
        Apart.inspect(table.storage().properties());
        Apart.inspect(table.properties());
    }

    private static boolean changes(String verb) {
        for (int index = 0; index < CHANGES.length; index++) {
            if (verb.startsWith(CHANGES[index])) {
                return true;
            }
        }
        return false;
    }

    private static String database(Object first) {
        if (first instanceof CatalogDatabase) {
            return ((CatalogDatabase) first).name();
        }
        return first instanceof CatalogTable ? ((CatalogTable) first).database() : (String) first;
    }

    /** The entries that a call is about. */
    private static String[] named(String verb, Object[] arguments) {
        if (arguments[0] instanceof CatalogTable) {
            return new String[] {((CatalogTable) arguments[0]).identifier().table()};
        } else if (verb.endsWith("Database") || verb.endsWith("DbExists") || verb.equals("databaseExists")) {
            return new String[0];
        } else if (arguments[1] instanceof CatalogFunction) {
            return new String[] {((CatalogFunction) arguments[1]).identifier().funcName()};
        } else if (verb.equals("renameTable") || verb.equals("renameFunction")) {
            return new String[] {(String) arguments[1], (String) arguments[2]};
        }
        return new String[] {(String) arguments[1]};
    }

    private static String[] strings(scala.collection.Seq given) {
        List found = new ArrayList();
        for (scala.collection.Iterator each = given.iterator(); each.hasNext();) {
            found.add(each.next());
        }
        return (String[]) found.toArray(new String[found.size()]);
    }

    /** Whether Spark asks for a database because it needs a place for a new table's rows, before it knows the table. */
    private static boolean forTable() {
        StackTraceElement[] callers = new Throwable().getStackTrace();
        for (int index = 0; index < callers.length && index < 20; index++) {
            if (callers[index].getMethodName().equals("defaultTablePath")) {
                return true;
            }
        }
        return false;
    }

    private static Object call(Method method, CatalogPaper paper, Object[] arguments) throws Throwable {
        try {
            return method.invoke(paper.catalog, arguments);
        } catch (InvocationTargetException wrapped) {
            throw wrapped.getCause();
        }
    }

    // ── what is there ─────────────────────────────────────────────────────────────────────────────────────────────────────

    CatalogPaper look(String database, String kind, String[] names) throws Exception {
        finishOthers();
        String key = kind + "/" + database + "/" + java.util.Arrays.asList(names);
        CatalogPaper known = (CatalogPaper) this.papers.get(key);
        CatalogPaper paper = ask(database, kind, names, "", known);
        if (paper != known) {
            if (this.papers.size() > PAPERS) {
                this.papers.clear();
            }
            this.papers.put(key, paper);
        }
        return paper;
    }

    CatalogPaper ask(String database, String kind, String[] names, String place, CatalogPaper known) throws Exception {
        Map found = this.channel.look(database, kind, java.util.Arrays.asList(names), known == null ? null : known.versions);
        if (found == null) {
            return known;
        }
        CatalogPaper paper = CatalogPaper.of(database, kind, found, this.standard, place);
        for (int index = 0; index < names.length; index++) {
            if (paper.unfinished.get(names[index]) != null) { // a driver was killed before it had moved the files
                settle(paper, names[index]);
                return ask(database, kind, names, place, null);
            }
        }
        return paper;
    }

    List databases() throws Exception {
        Map request = new LinkedHashMap();
        request.put("ask", "databases");
        List found = (List) this.channel.ask(request).get("names");
        if (!found.contains(this.standard.name())) {
            found.add(this.standard.name());
        }
        return found;
    }

    List names(String database, String kind) throws Exception {
        return (List) this.channel.ask(CatalogChannel.about("names", database, kind)).get("names");
    }

    CatalogTable table(String database, String name) throws Exception {
        return look(database, TABLE, new String[] {name}).catalog.getTable(database, name);
    }

    private List views(String database, List names) throws Exception {
        List found = new ArrayList();
        try { // one question, however many there are
            ExternalCatalog all = look(database, TABLE, (String[]) names.toArray(new String[names.size()])).catalog;
            for (int index = 0; index < names.size(); index++) {
                addView(all.getTable(database, (String) names.get(index)), found);
            }
            return found;
        } catch (IOException unreadable) { // one of them, by this version of Spark
            found.clear();
        }
        for (int index = 0; index < names.size(); index++) {
            try {
                addView(table(database, (String) names.get(index)), found);
            } catch (IOException unreadable) {
                continue;
            }
        }
        return found;
    }

    private static void addView(CatalogTable table, List found) {
        if (table.tableType().equals(CatalogTableType.VIEW())) {
            found.add(table.identifier().table());
        }
    }

    private static Object matching(List names, Object[] arguments, int at) throws Exception {
        scala.collection.immutable.List found = (scala.collection.immutable.List) CatalogCodec.decodeAll(names);
        return arguments.length > at ? StringUtils.filterPattern(found, (String) arguments[at]) : found;
    }

    // ── changes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    private Object change(Method method, Object[] arguments, String database, String kind, String[] names) throws Throwable {
        String verb = method.getName();
        boolean replaces = verb.equals("createTable") && this.overwrites.goesOn(database, names[0]);
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            Object[] result = new Object[1];
            boolean made;
            if (verb.endsWith("Database")) {
                made = changeDatabase(method, arguments, database, result);
            } else if (replaces) {
                made = replace(method, arguments, ask(database, kind, names, "", null), names[0]);
            } else {
                CatalogPaper paper = ask(database, kind, names, verb.equals("createTable") ? CatalogRows.place() : "", null);
                List after = this.rows.moves(verb, paper, arguments);
                result[0] = call(method, paper, arguments);
                made = changeEntry(verb, paper, names, arguments, after);
            }
            if (made) {
                return result[0];
            }
            Thread.sleep(Math.min(attempt, 20)); // another cluster was faster
        }
        throw new IOException("Nothing was changed: other clusters change " + database + " all the time. Try again.");
    }

    private boolean changeEntry(String verb, CatalogPaper paper, String[] names, Object[] arguments, List after) throws Throwable {
        String name = names[0];
        boolean there = !paper.version(name).isEmpty();
        if (verb.startsWith("drop") && names.length == 1 && !verb.equals("dropPartitions")) {
            return !there || drop(paper, name);
        } else if (verb.startsWith("rename") && names.length == 2) {
            Map request = CatalogChannel.about("rename", paper.database, paper.kind);
            request.put("name", name);
            request.put("to", names[1]);
            request.put("version", paper.version(name));
            return this.channel.sent(request) != null;
        } else if (verb.startsWith("create") && !verb.equals("createPartitions") && there) {
            return true; // and was to be ignored then, or Spark would have complained
        }
        this.rows.make(verb, paper, name, arguments);
        Map tree = paper.described(name);
        if (!after.isEmpty()) {
            tree.put(CatalogPaper.UNFINISHED, after);
        }
        if (this.channel.put(paper.database, paper.kind, name, paper.version(name), tree) == null) {
            return false;
        }
        if (verb.equals("createPartitions")) {
            CommitRecords.adopted(
                this.conf, new Path(paper.catalog.getTable(paper.database, name).location()), locations(paper, name));
        }
        if (!after.isEmpty()) {
            this.rows.perform(after, false);
            finished(paper.database, name, after);
        }
        return true;
    }

    /** Puts a table in the place of one of the same name, as a single change, and removes the old one's rows after it. */
    private boolean replace(Method method, Object[] arguments, CatalogPaper paper, String name) throws Throwable {
        List old = new ArrayList();
        Path place = null;
        if (paper.texts.get(name) != null) {
            old.add(paper.texts.get(name));
            scala.Option known = paper.catalog.getTable(paper.database, name).storage().locationUri(); // a view has none
            place = known.isDefined() ? new Path((java.net.URI) known.get()) : null;
            paper.catalog.dropTable(paper.database, name, true, false);
        }
        call(method, paper, arguments);
        this.rows.make(method.getName(), paper, name, arguments);
        if (this.channel.put(paper.database, paper.kind, name, paper.version(name), paper.described(name)) == null) {
            return false;
        }
        this.overwrites.end();
        if (place != null && !(new Path(paper.catalog.getTable(paper.database, name).location()) + "/").startsWith(place + "/")) {
            this.rows.remove(old, false);
        }
        return true;
    }

    private static Set locations(CatalogPaper paper, String name) throws Exception {
        Set found = new HashSet();
        scala.collection.Iterator each = paper.catalog.listPartitions(paper.database, name, scala.Option.empty()).iterator();
        while (each.hasNext()) {
            found.add(new Path(((CatalogTablePartition) each.next()).location()).toString());
        }
        return found;
    }

    private boolean drop(CatalogPaper paper, String name) throws Exception {
        Map request = CatalogChannel.about("drop", paper.database, paper.kind);
        request.put("name", name);
        request.put("version", paper.version(name));
        return cleared(this.channel.sent(request), false);
    }

    private boolean changeDatabase(Method method, Object[] arguments, String database, Object[] result) throws Throwable {
        String verb = method.getName();
        boolean cascade = verb.equals("dropDatabase") && ((Boolean) arguments[2]).booleanValue();
        String kind = TABLE;
        List members = new ArrayList();
        if (verb.equals("dropDatabase") && !cascade) { // one is enough for Spark to complain
            members = names(database, TABLE);
            kind = members.isEmpty() ? FUNCTION : TABLE;
            members = members.isEmpty() ? names(database, FUNCTION) : members;
        }
        String[] one = members.isEmpty() ? new String[0] : new String[] {(String) members.get(0)};
        CatalogPaper paper = ask(database, kind, one, "", null);
        boolean there = paper.catalog.databaseExists(database);
        Path path = there ? new Path(paper.catalog.getDatabase(database).locationUri()) : null;
        result[0] = call(method, paper, arguments);
        if (verb.equals("dropDatabase")) {
            Map request = new LinkedHashMap();
            request.put("ask", "drop_database");
            request.put("database", database);
            request.put("cascade", Boolean.valueOf(cascade));
            if (there && !cleared(this.channel.sent(request), false)) {
                return false;
            }
            this.rows.removeEmpty(path);
            return true;
        } else if (verb.equals("createDatabase") && there) {
            return true;
        }
        CatalogDatabase made = paper.catalog.getDatabase(database);
        this.rows.makeDirectory(new Path(made.locationUri()));
        Map tree = new LinkedHashMap();
        tree.put("database", CatalogCodec.encode(made));
        return this.channel.put(database, TABLE, "", paper.version(""), tree) != null;
    }

    /** After something was dropped: removes its rows. */
    private boolean cleared(Map dropped, boolean strangers) throws Exception {
        if (dropped == null) {
            return false;
        }
        Map left = dropped;
        do {
            Map texts = (Map) left.get("texts");
            this.rows.remove(texts.values(), strangers);
            Map request = new LinkedHashMap();
            request.put("ask", "cleared");
            request.put("id", dropped.get("id"));
            request.put("files", new ArrayList(texts.keySet()));
            left = this.channel.ask(request);
        } while (!((Map) left.get("texts")).isEmpty());
        return true;
    }

    // ── what drivers that were killed have left ───────────────────────────────────────────────────────────────────────────

    /** Finishes what they had committed, before anybody sees a part of it. Looks once a second at most. */
    private void finishOthers() throws Exception {
        long now = System.nanoTime();
        synchronized (this) {
            if (this.looked != 0 && now - this.looked < LOOK_NS) {
                return;
            }
            boolean first = this.looked == 0;
            this.looked = now;
            try {
                List left = CommitRecords.finishOthers(this.conf);
                for (int index = 0; index < left.size(); index++) {
                    adopt((File) left.get(index));
                }
                if (first) {
                    removeAbandoned();
                }
            } catch (Exception error) { // the next look, or their own next driver, does it
                LOG.warn("What another cluster's driver has left cannot be finished", error);
            }
        }
    }

    /** Takes in the partitions of managed tables that a killed driver has written and did not come to tell. */
    public void adopt(File writes) throws Exception {
        File[] files = writes.listFiles();
        for (int index = 0; files != null && index < files.length; index++) {
            if (files[index].getName().endsWith(".json")) {
                Map record = (Map) new ObjectMapper().readValue(files[index], Map.class);
                if (record.containsKey("parted")) {
                    adopt(new Path((String) record.get("path")), (List) record.get("parted"));
                    Files.deleteIfExists(files[index].toPath());
                }
            }
        }
    }

    private void settle(CatalogPaper paper, String name) throws Exception {
        List left = (List) paper.unfinished.get(name);
        this.rows.perform(left, true);
        finished(paper.database, name, left);
    }

    /** Notes that the files are moved. */
    private void finished(String database, String name, List done) throws Exception {
        List names = java.util.Arrays.asList(new String[] {name});
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            Map held = (Map) this.channel.look(database, TABLE, names, null).get(name);
            Map tree = held == null ? new LinkedHashMap() : CatalogChannel.unpacked((String) held.get("text"));
            if (!done.equals(tree.remove(CatalogPaper.UNFINISHED))) {
                return; // another driver was faster
            }
            if (this.channel.put(database, TABLE, name, (String) held.get("version"), tree) != null) {
                return;
            }
        }
    }

    /** Removes rows of what was dropped by drivers that were killed then. */
    void removeAbandoned() throws Exception {
        Map request = new LinkedHashMap();
        request.put("ask", "abandoned");
        for (Map found = this.channel.ask(request); found.get("id") != null; found = this.channel.ask(request)) {
            cleared(found, true);
        }
    }

    /** Tells the metastore of partitions that a killed driver has written to a table in `path`. */
    private void adopt(Path path, List directories) throws Exception {
        List all = databases();
        for (int index = 0; index < all.size(); index++) {
            String database = (String) all.get(index);
            List names = names(database, TABLE);
            for (int number = 0; number < names.size(); number++) {
                CatalogTable table;
                try {
                    table = table(database, (String) names.get(number));
                } catch (IOException unreadable) {
                    continue;
                }
                boolean managed = table.tableType().equals(CatalogTableType.MANAGED());
                if (managed && table.tracksPartitionsInCatalog() && new Path(table.location()).toString().equals(path.toString())) {
                    adopt(database, table, directories);
                    return;
                }
            }
        }
    }

    private void adopt(String database, CatalogTable table, List directories) throws Exception {
        String name = table.identifier().table();
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            CatalogPaper paper = ask(database, TABLE, new String[] {name}, "", null);
            List added = this.rows.unknown(paper, table, directories);
            if (added.isEmpty()) {
                return;
            }
            paper.catalog.createPartitions(
                database, name, (scala.collection.immutable.List) CatalogCodec.decodeAll(added), true);
            if (this.channel.put(database, TABLE, name, paper.version(name), paper.described(name)) != null) {
                return;
            }
        }
    }
}
