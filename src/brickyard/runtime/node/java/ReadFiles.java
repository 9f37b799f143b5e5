package brickyard;

import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.spark.sql.DataFrameReader;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.InternalRow$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;

/**
 * Databricks' function read_files(path, format => 'csv', ...) in SQL: Spark's reader for files, with its options as arguments. It has no
 * column for what does not fit the schema (_rescued_data). Compiled as NodeFiles.java is.
 */
public final class ReadFiles extends scala.runtime.AbstractFunction1 {
    private static final String NAME = "read_files";
    private static final List FORMATS = Arrays.asList(new Object[] {"avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"});
    // What Spark's readers would leave out silently.
    private static final Set REFUSED = new HashSet(Arrays.asList(
        new Object[] {"schemahints", "rescueddatacolumn", "partitioncolumns", "readercasesensitive", "schemaevolutionmode", "schemalocation"}));

    private ReadFiles() {}

    /** Before the session has planned anything. */
    static void offer(SparkSessionExtensions extensions) {
        FunctionIdentifier name = new FunctionIdentifier(NAME);
        extensions.injectTableFunction(new scala.Tuple3(name, new ExpressionInfo(ReadFiles.class.getName(), NAME), new ReadFiles()));
    }

    /** The plan for the function's arguments. */
    public Object apply(Object arguments) {
        Map options = new LinkedHashMap();
        String path = null;
        for (scala.collection.Iterator each = ((scala.collection.Seq) arguments).iterator(); each.hasNext();) {
            Expression given = (Expression) each.next();
            boolean named = given.getClass().getSimpleName().equals("NamedArgumentExpression"); // Spark 3.4 has none
            String key = named ? ((String) call(given, "key")).toLowerCase(Locale.ROOT) : "path";
            if (!named && path != null) {
                throw refused("has one argument without a name, the path; write NAME => VALUE for the others");
            }
            String value = text(key, named ? (Expression) call(given, "value") : given);
            if (key.equals("path")) {
                path = value;
            } else {
                options.put(key, value);
            }
        }
        if (path == null) {
            throw refused("needs the path of files, such as read_files('dbfs:/data', format => 'csv')");
        }
        return plan(path, options);
    }

    private static Object plan(String path, Map options) {
        for (java.util.Iterator each = options.keySet().iterator(); each.hasNext();) {
            String key = (String) each.next();
            if (REFUSED.contains(key)) {
                throw refused("does not know " + key + " on this cluster; give the columns as schema => 'id BIGINT, name STRING'");
            }
        }
        String format = (String) options.remove("format");
        format = format != null ? format : guessed(path);
        String schema = (String) options.remove("schema");
        String pattern = (String) options.remove("filenamepattern");
        String inferred = (String) options.remove("infercolumntypes");
        DataFrameReader reader = SparkSession.active().read().format(format);
        if (schema != null) {
            reader = reader.schema(schema);
        } else if (format.equalsIgnoreCase("csv") && !options.containsKey("inferschema")) {
            reader = reader.option("inferSchema", inferred == null ? "true" : inferred); // as Databricks does
        }
        if (pattern != null) {
            reader = reader.option("pathGlobFilter", pattern);
        }
        for (java.util.Iterator each = options.entrySet().iterator(); each.hasNext();) {
            Map.Entry option = (Map.Entry) each.next();
            reader = reader.option((String) option.getKey(), (String) option.getValue());
        }
        return call(call(reader.load(path), "queryExecution"), "analyzed");
    }

    /** The format that the name of the path or of its first file ends with. */
    private static String guessed(String path) {
        try {
            String found = format(path);
            Path place = new Path(path);
            FileSystem files = place.getFileSystem(((org.apache.spark.SparkContext) call(SparkSession.active(), "sparkContext")).hadoopConfiguration());
            if (found == null && files.exists(place)) {
                for (RemoteIterator each = files.listFiles(place, true); found == null && each.hasNext();) {
                    found = format(((LocatedFileStatus) each.next()).getPath().getName());
                }
            }
            if (found != null) {
                return found;
            }
        } catch (java.io.IOException error) {
            throw refused("cannot look at " + path + ": " + error.getMessage());
        }
        throw refused("cannot tell the format of " + path + ": name it, such as format => 'csv'");
    }

    private static String format(String name) {
        String plain = name.toLowerCase(Locale.ROOT).replaceAll("[.](gz|bz2|zst|lz4|snappy)$", "");
        String ending = plain.substring(plain.lastIndexOf('.') + 1);
        return FORMATS.contains(ending) ? ending : ending.equals("txt") ? "text" : null;
    }

    private static String text(String key, Expression given) {
        if (!given.foldable()) {
            throw refused("needs a constant for " + key);
        }
        Object value = given.eval(InternalRow$.MODULE$.empty());
        if (value == null) {
            throw refused("needs a value for " + key);
        }
        return value.toString();
    }

    /** Spark has these methods in other classes, or with other return types, in each of its versions. */
    private static Object call(Object object, String method) {
        try {
            return object.getClass().getMethod(method, new Class[0]).invoke(object, new Object[0]);
        } catch (java.lang.reflect.InvocationTargetException error) {
            return new scala.util.Failure(error.getTargetException()).get(); // throws it
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static IllegalArgumentException refused(String what) {
        return new IllegalArgumentException(NAME + " " + what + ".");
    }
}
