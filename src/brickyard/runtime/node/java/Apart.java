package brickyard;

import java.io.File;
import java.lang.reflect.Field;
import java.net.URI;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * The JVMs of a cluster that keeps its users apart: what they do not do for users, whose code sees none of their files. Compiled as
 * NodeFiles.java is.
 */
public final class Apart implements SparkPlugin {
    /** A system property of such a JVM: the directories that file:/ and dbfs:/ reach, ":" between them. Users see them, too. */
    public static final String PLACES = "brickyard.apart";

    private static final String ELSEWHERE = " This cluster keeps its users apart (data_security_mode USER_ISOLATION).";
    private static final Set ADDITIONS = new HashSet(Arrays.asList(new Object[] {
        "AddFileCommand", "AddFilesCommand", "AddArchiveCommand", "AddArchivesCommand"}));

    /** Spark's and Hadoop's own uses of files: of a class, methods that begin so. None takes a path that a user names. */
    private static final String[][] OWN = {
        {"org.apache.spark.deploy.history.EventLogFile", ""},
        {"org.apache.spark.deploy.history.SingleEventLogFile", ""},
        {"org.apache.spark.deploy.history.RollingEventLogFile", ""},
        {"org.apache.spark.sql.artifact.ArtifactManager", "addArtifact"},
        {"org.apache.hadoop.fs.LocalDirAllocator", ""}
    };
    /** Settings and options that decide which class serves a path, or where our own look, and whether sessions share artifacts. */
    private static final Pattern REFUSED = Pattern.compile(
        "(spark\\.hadoop\\.)?fs\\.((.*\\.)?impl(\\.disable\\.cache)?|brickyard\\..*)|spark\\.sql\\.artifact\\.isolation\\..*");
    private static final String GLOBAL = ".GlobalTempView$"; // an object of Spark's, and no Product

    public static boolean isOn() {
        return !System.getProperty(PLACES, "").isEmpty();
    }

    /** Whether a path is in one of those places. Links lead nowhere there, as the JVM sees them (sandbox/reveal.py). */
    public static boolean reaches(String path) {
        String places = System.getProperty(PLACES, "");
        if (places.isEmpty()) {
            return true;
        }
        String name = new File(path).getAbsoluteFile().toPath().normalize().toString();
        String[] each = places.split(":");
        for (int index = 0; index < each.length; index++) {
            if (name.equals(each[index]) || name.startsWith(each[index] + "/")) {
                return true;
            }
        }
        return false;
    }

    /** Returns the file, or throws SecurityException if users may not reach it through Spark. */
    static File checked(File file) {
        if (!reaches(file.getPath()) && !isOwn(new Throwable().getStackTrace())) {
            throw new SecurityException(
                "file:" + file.getPath() + " cannot be reached through Spark. This cluster keeps its users apart"
                + " (data_security_mode USER_ISOLATION): Spark reads and writes only " + System.getProperty(PLACES).replace(":", ", ")
                + ". Put the file into dbfs:/ or a volume.");
        }
        return file;
    }

    private static boolean isOwn(StackTraceElement[] stack) {
        for (int frame = 0; frame < stack.length; frame++) {
            for (int index = 0; index < OWN.length; index++) {
                if (stack[frame].getClassName().startsWith(OWN[index][0]) && stack[frame].getMethodName().startsWith(OWN[index][1])) {
                    return true;
                }
            }
        }
        return false;
    }

    /** Refuses a setting or an option by its name. */
    public static void inspectKey(String key) {
        if (REFUSED.matcher(key.trim().toLowerCase()).matches()) {
            throw new SecurityException(key.trim() + " cannot be set here." + ELSEWHERE);
        }
    }

    /** Refuses what would be shared by all users of the cluster. */
    public static void refuseGlobalView() {
        throw new SecurityException(
            "Global temporary views cannot be used here: all users of the cluster would share them." + ELSEWHERE
            + " Use CREATE TEMPORARY VIEW, or a table.");
    }

    /** Refuses a plan, or a part of one, that holds a name or a path which is refused. Before Spark resolves it. */
    public static void inspect(Object root) {
        ArrayDeque left = new ArrayDeque(); // no recursion: a plan may be as deep as the parser could go
        left.push(root);
        while (!left.isEmpty()) {
            Object each = left.pop();
            if (each instanceof String) {
                inspectKey((String) each);
            } else if (each instanceof Map) {
                for (Iterator keys = ((Map) each).keySet().iterator(); keys.hasNext();) {
                    inspectKey(String.valueOf(keys.next()));
                }
            } else if (each instanceof scala.collection.Iterable) {
                pushAll(left, ((scala.collection.Iterable) each).iterator());
            } else if (each instanceof scala.Product) {
                inspectKind((scala.Product) each);
                pushAll(left, ((scala.Product) each).productIterator());
            } else if (each.getClass().getName().endsWith(GLOBAL)) {
                refuseGlobalView();
            }
        }
    }

    private static void pushAll(ArrayDeque left, scala.collection.Iterator parts) {
        while (parts.hasNext()) {
            Object part = parts.next();
            if (part != null) {
                left.push(part);
            }
        }
    }

    private static void inspectKind(scala.Product node) {
        String kind = node.getClass().getName();
        String name = kind.substring(kind.lastIndexOf('.') + 1);
        if (name.equals("CreateTempViewUsing") && isGlobal(node)) {
            refuseGlobalView();
        }
        if (ADDITIONS.contains(name)) {
            Object paths = node.productElement(0);
            if (paths instanceof String) {
                inspectAddition((String) paths);
                return;
            }
            for (scala.collection.Iterator each = ((scala.collection.Iterable) paths).iterator(); each.hasNext();) {
                inspectAddition((String) each.next());
            }
        }
    }

    private static boolean isGlobal(scala.Product node) {
        try {
            return Boolean.TRUE.equals(node.getClass().getMethod("global", new Class[0]).invoke(node, new Object[0]));
        } catch (ReflectiveOperationException unknown) {
            return true;
        }
    }

    /** Refuses to add a file that the JVM reads itself, without Hadoop, and its user does not see. */
    private static void inspectAddition(String path) {
        URI found = org.apache.spark.util.Utils.resolveURI(path);
        String scheme = String.valueOf(found.getScheme()).toLowerCase();
        boolean refused = scheme.equals("local") || scheme.equals("spark") || scheme.equals("ivy");
        if (refused || scheme.equals("file") && (found.getPath() == null || !reaches(found.getPath()))) {
            throw new SecurityException(
                path + " cannot be added here." + ELSEWHERE + " Put the file into dbfs:/ or a volume, or use spark.addArtifact.");
        }
    }

    /** From now on, Hadoop's settings do not take values from this JVM's environment, where an executor has the cluster's secret. */
    public static void hideVariables() {
        Configuration.setRestrictSystemPropertiesDefault(true);
    }

    /** Sets the program that Spark starts for Python, where it has been read from the environment before. */
    public static void python(String program) throws Exception {
        Class utils = Class.forName("org.apache.spark.api.python.PythonUtils$");
        Object found = utils.getMethod("defaultPythonExec", new Class[0]).invoke(utils.getField("MODULE$").get(null), new Object[0]);
        if (found.equals(program)) {
            return;
        }
        Field field = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
        field.setAccessible(true);
        sun.misc.Unsafe unsafe = (sun.misc.Unsafe) field.get(null);
        Field own = utils.getDeclaredField("defaultPythonExec");
        unsafe.putObject(unsafe.staticFieldBase(own), unsafe.staticFieldOffset(own), program);
    }

    public DriverPlugin driverPlugin() {
        return null;
    }

    public ExecutorPlugin executorPlugin() {
        return new OnExecutor();
    }

    static final class OnExecutor implements ExecutorPlugin {
        public void init(PluginContext context, Map settings) {
            hideVariables();
        }
    }
}
