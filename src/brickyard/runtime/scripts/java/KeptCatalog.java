package brickyard;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.math.BigInteger;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase;
import org.apache.spark.sql.catalyst.catalog.CatalogFunction;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;
import org.apache.spark.sql.types.DataType;

/**
 * Spark's catalog of tables in memory, with a copy in a directory: one file a database, replaced whole after every change and
 * before its caller goes on. So tables outlive the driver, and a driver that is killed leaves the state before or after a change.
 *
 * It stands in the place of the catalog that Spark has made, as a proxy, since that interface differs from version to version.
 * Compiled as NodeFiles.java is.
 */
public final class KeptCatalog implements InvocationHandler {
    private static final String SUFFIX = ".json";

    private final ExternalCatalog inner;
    private final File directory;

    private KeptCatalog(ExternalCatalog inner, File directory) {
        this.inner = inner;
        this.directory = directory;
    }

    /**
     * Fill `shared` (an ExternalCatalogWithListener) from `path`, and keep it there from now on. Returns the names of files that
     * could not be read: they are set aside.
     */
    public static List keep(Object shared, String path) throws Exception {
        Field field = shared.getClass().getDeclaredField("delegate");
        field.setAccessible(true);
        ExternalCatalog inner = (ExternalCatalog) field.get(shared);
        File directory = new File(path);
        Files.createDirectories(directory.toPath(), new java.nio.file.attribute.FileAttribute[0]);
        KeptCatalog kept = new KeptCatalog(inner, directory);
        List unreadable = kept.load();
        Class[] faces = new Class[] {ExternalCatalog.class};
        field.set(shared, Proxy.newProxyInstance(ExternalCatalog.class.getClassLoader(), faces, kept));
        return unreadable;
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        boolean changes = changes(method.getName());
        if (!changes) {
            return call(method, arguments);
        }
        synchronized (this) {
            Object result = call(method, arguments);
            save(database(arguments[0]));
            return result;
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

    // ── the copy ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    private void save(String name) throws Exception {
        File file = new File(this.directory, URLEncoder.encode(name, "UTF-8") + SUFFIX);
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

    private static void replace(File file, byte[] data) throws IOException {
        File draft = new File(file.getPath() + ".draft");
        FileOutputStream stream = new FileOutputStream(draft);
        try {
            stream.write(data);
            stream.getFD().sync();
        } finally {
            stream.close();
        }
        Files.move(draft.toPath(), file.toPath(), new java.nio.file.CopyOption[] {StandardCopyOption.ATOMIC_MOVE});
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
            this.inner.createPartitions(
                database, table.identifier().table(), (scala.collection.immutable.List) Codec.decodeAll(parts), true);
        }
    }
}

/**
 * Spark's descriptions as JSON and back. A description is a case class: its fields go by name, and one that another version of
 * Spark does not know, or did not write, is left out, or has its default. Other values are a list of a word for the kind and the value.
 */
final class Codec {
    static Object encode(Object value) throws Exception {
        if (value == null || value instanceof String || value instanceof Boolean) {
            return value;
        } else if (value instanceof Number) {
            return kind(value instanceof Integer ? "int" : value instanceof Long ? "long" : "big", value.toString());
        } else if (value instanceof URI) {
            return kind("uri", value.toString());
        } else if (value instanceof DataType) {
            return kind("type", ((DataType) value).json());
        } else if (value instanceof scala.Option) {
            scala.Option option = (scala.Option) value;
            return option.isEmpty() ? kind("none", null) : kind("some", encode(option.get()));
        } else if (value instanceof scala.collection.Map) {
            return kind("map", entries((scala.collection.Map) value));
        } else if (value instanceof scala.collection.Seq) {
            return kind("seq", items(((scala.collection.Seq) value).iterator()));
        } else if (value.getClass().getName().endsWith("$")) {
            return kind("object", value.getClass().getName());
        }
        return kind("case", fields(value));
    }

    private static List kind(String name, Object value) {
        List pair = new ArrayList();
        pair.add(name);
        pair.add(value);
        return pair;
    }

    private static Map entries(scala.collection.Map values) throws Exception {
        Map found = new LinkedHashMap();
        for (scala.collection.Iterator each = values.iterator(); each.hasNext();) {
            scala.Tuple2 pair = (scala.Tuple2) each.next();
            found.put((String) pair._1(), encode(pair._2()));
        }
        return found;
    }

    private static List items(scala.collection.Iterator each) throws Exception {
        List found = new ArrayList();
        while (each.hasNext()) {
            found.add(encode(each.next()));
        }
        return found;
    }

    private static Map fields(Object value) throws Exception {
        Map found = new LinkedHashMap();
        List names = parameters(value.getClass());
        for (int index = 0; index < names.size(); index++) {
            Field field = (Field) names.get(index);
            field.setAccessible(true);
            if (!field.getName().equals("stats")) { // they can be computed again
                found.put(field.getName(), encode(field.get(value)));
            }
        }
        found.put("class", value.getClass().getName());
        return found;
    }

    static Object decode(Object given) throws Exception {
        if (!(given instanceof List)) {
            return given;
        }
        String kind = (String) ((List) given).get(0);
        Object value = ((List) given).get(1);
        if (kind.equals("int")) {
            return Integer.valueOf((String) value);
        } else if (kind.equals("long")) {
            return Long.valueOf((String) value);
        } else if (kind.equals("big")) {
            return new scala.math.BigInt(new BigInteger((String) value));
        } else if (kind.equals("uri")) {
            return new URI((String) value);
        } else if (kind.equals("type")) {
            return DataType.fromJson((String) value);
        } else if (kind.equals("none")) {
            return scala.Option.empty();
        } else if (kind.equals("some")) {
            return scala.Option.apply(decode(value));
        } else if (kind.equals("seq")) {
            return decodeAll((List) value);
        } else if (kind.equals("map")) {
            return decodeMap((Map) value);
        } else if (kind.equals("object")) {
            return companion((String) value);
        }
        return make((Map) value);
    }

    static Object decodeAll(List values) throws Exception {
        scala.collection.immutable.List found = (scala.collection.immutable.List) companion("scala.collection.immutable.Nil$");
        for (int index = values.size() - 1; index >= 0; index--) {
            found = found.$colon$colon(decode(values.get(index)));
        }
        return found;
    }

    private static Object decodeMap(Map values) throws Exception {
        Object found = scala.collection.immutable.Map$.MODULE$.empty();
        for (java.util.Iterator each = values.entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            scala.Tuple2 pair = new scala.Tuple2(entry.getKey(), decode(entry.getValue()));
            found = ((scala.collection.immutable.Map) found).$plus(pair);
        }
        return found;
    }

    private static Object make(Map values) throws Exception {
        String name = (String) values.get("class");
        Class type = find(name);
        if (!type.getName().startsWith("org.apache.spark.sql.catalyst.")) {
            throw new IllegalArgumentException(name + " describes nothing of a catalog");
        }
        List fields = parameters(type);
        Object[] given = new Object[fields.size()];
        for (int index = 0; index < given.length; index++) {
            String field = ((Field) fields.get(index)).getName();
            given[index] = values.containsKey(field) ? decode(values.get(field)) : standard(name, index + 1);
        }
        Constructor constructor = constructor(type);
        constructor.setAccessible(true);
        return constructor.newInstance(given);
    }

    /** What a parameter is when it is not given. */
    private static Object standard(String name, int number) throws Exception {
        Object companion = companion(name + "$");
        return companion.getClass().getMethod("apply$default$" + number, new Class[0]).invoke(companion, new Object[0]);
    }

    private static Object companion(String name) throws Exception {
        return find(name).getField("MODULE$").get(null);
    }

    private static Class find(String name) throws Exception {
        return Class.forName(name, true, CatalogTable.class.getClassLoader());
    }

    private static Constructor constructor(Class type) {
        Constructor[] all = type.getDeclaredConstructors();
        Constructor longest = all[0];
        for (int index = 1; index < all.length; index++) {
            longest = all[index].getParameterTypes().length > longest.getParameterTypes().length ? all[index] : longest;
        }
        return longest;
    }

    /** The fields that hold a case class's parameters, in their order: others that it may have do not match their types. */
    private static List parameters(Class type) {
        Class[] wanted = constructor(type).getParameterTypes();
        Field[] all = type.getDeclaredFields();
        List found = new ArrayList();
        for (int index = 0; index < all.length && found.size() < wanted.length; index++) {
            boolean plain = !Modifier.isStatic(all[index].getModifiers());
            if (plain && all[index].getType() == wanted[found.size()]) {
                found.add(all[index]);
            }
        }
        if (found.size() != wanted.length) {
            throw new IllegalStateException(type.getName() + " does not keep its parameters in fields");
        }
        return found;
    }
}
