package brickyard;

import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileReader;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import javax.management.ObjectName;
import org.apache.hadoop.fs.FileSystem;

/**
 * The main class of a JVM that waits to be an executor (waiting/holder.py). It is an executor of a driver that computes nothing of
 * anybody's, to its end: this loads the classes and compiles the methods. Then it waits for an order, and becomes the executor that the
 * order describes, through that executor's own main method. Its one argument is the name of that method's class. Orders come on standard
 * input. Compiled as NodeFiles.java is.
 */
public final class WaitingExecutor {
    private static final String WAITS = "brickyard: the executor waits";
    private static final String COMMAND = "sun.java.command";
    private static final String BEAN = "com.sun.management:type=DiagnosticCommand";

    private WaitingExecutor() {
    }

    public static void main(String[] given) throws Throwable {
        DataInputStream orders = new DataInputStream(new FileInputStream(FileDescriptor.in));
        Order rehearsal = new Order(orders);
        rehearsal.take(given[0]);
        Rehearsal run = new Rehearsal(given[0], rehearsal.arguments);
        run.start();
        run.join();
        if (run.failure != null) {
            throw run.failure;
        }
        rehearsal.forget();
        forget();
        removeLibraries();
        System.out.println(WAITS);
        System.out.flush();
        Order order = new Order(orders);
        order.take(given[0]);
        Method main = Class.forName(given[0]).getMethod("main", new Class[] {String[].class});
        try {
            main.invoke(null, new Object[] {order.arguments});
        } catch (InvocationTargetException error) {
            throw error.getTargetException();
        }
    }

    /** Lets go of what the rehearsal's executor has left in Spark and Hadoop, and of memory. */
    private static void forget() throws Throwable {
        // By a handle: SparkEnv of Spark 4.3 names classes that its wheel lacks, so what calls it does not compile.
        Class env = Class.forName("org.apache.spark.SparkEnv");
        MethodType takesOne = MethodType.methodType(Void.TYPE, env);
        MethodHandles.publicLookup().findStatic(env, "set", takesOne).invokeWithArguments(new Object[] {null});
        Object utils = Class.forName("org.apache.spark.util.Utils$").getField("MODULE$").get(null);
        utils.getClass().getMethod("clearLocalRootDirs", new Class[0]).invoke(utils, new Object[0]);
        FileSystem.closeAll();
        Thread.setDefaultUncaughtExceptionHandler(null);
        System.gc();
        System.runFinalization(); // buffers outside the heap are freed with their owners
        System.gc();
        try {
            Object[] nothing = new Object[] {new String[0]};
            String[] types = new String[] {"[Ljava.lang.String;"};
            ManagementFactory.getPlatformMBeanServer().invoke(new ObjectName(BEAN), "systemTrimNativeHeap", nothing, types);
        } catch (javax.management.JMException unknown) {
            return; // older Javas cannot do this
        }
    }

    /**
     * Removes the files of the native libraries that were unpacked and loaded. The JVM needs them no more, and would leave them, since
     * it is killed if no executor is wanted.
     */
    private static void removeLibraries() throws IOException {
        String place = System.getProperty("java.io.tmpdir") + File.separator;
        BufferedReader maps = new BufferedReader(new FileReader("/proc/self/maps"));
        try {
            for (String line = maps.readLine(); line != null; line = maps.readLine()) {
                int path = line.indexOf(place);
                if (path >= 0 && line.endsWith(".so")) {
                    new File(line.substring(path)).delete();
                    new File(line.substring(path) + ".lck").delete(); // by which lz4-java knows that its library is in use
                }
            }
        } finally {
            maps.close();
        }
    }

    /** What the JVM is to be. */
    private static final class Order {
        final String[] arguments;
        private final String directory;
        private final String[] variables;
        private final String[] settings;

        Order(DataInputStream orders) throws IOException {
            this.directory = texts(orders)[0];
            this.arguments = texts(orders);
            this.variables = texts(orders);
            this.settings = texts(orders);
        }

        private static String[] texts(DataInputStream orders) throws IOException {
            String[] found = new String[orders.readInt()];
            for (int index = 0; index < found.length; index++) {
                byte[] text = new byte[orders.readInt()];
                orders.readFully(text);
                found[index] = new String(text);
            }
            return found;
        }

        void take(String name) throws Exception {
            Surroundings.directory(this.directory);
            Surroundings.variables(pairs(this.variables));
            Iterator each = pairs(this.settings).entrySet().iterator();
            while (each.hasNext()) {
                Map.Entry setting = (Map.Entry) each.next();
                System.setProperty((String) setting.getKey(), (String) setting.getValue());
            }
            StringBuffer command = new StringBuffer(name);
            for (int index = 0; index < this.arguments.length; index++) {
                command.append(' ').append(this.arguments[index]);
            }
            System.setProperty(COMMAND, command.toString());
        }

        void forget() throws Throwable {
            Iterator each = pairs(this.settings).keySet().iterator();
            while (each.hasNext()) {
                System.clearProperty((String) each.next());
            }
            Surroundings.variables(new HashMap());
        }

        private static Map pairs(String[] texts) {
            Map found = new HashMap();
            for (int index = 0; index < texts.length; index++) {
                int end = texts[index].indexOf('=');
                found.put(texts[index].substring(0, end), texts[index].substring(end + 1));
            }
            return found;
        }
    }

    /** An executor, run as its main method does, except that the JVM goes on afterwards. */
    private static final class Rehearsal extends Thread {
        Throwable failure;
        private final String name;
        private final String[] arguments;

        Rehearsal(String name, String[] arguments) {
            this.name = name;
            this.arguments = arguments;
        }

        public void run() {
            try {
                Object companion = Class.forName(this.name + "$").getField("MODULE$").get(null);
                Object given = call(companion, "parseArguments", new Object[] {this.arguments, this.name});
                call(companion, "run", new Object[] {given, new Backends(this.name)});
            } catch (Throwable error) {
                this.failure = error;
            }
        }
    }

    /** Makes the endpoint that the driver speaks to: (RpcEnv, Arguments, SparkEnv, ResourceProfile) => CoarseGrainedExecutorBackend. */
    private static final class Backends extends scala.runtime.AbstractFunction4 {
        private static final String[] FIELDS =
            new String[] {"driverUrl", "executorId", "bindAddress", "hostname", "cores", "resourcesFileOpt"};
        private final String name;

        Backends(String name) {
            this.name = name;
        }

        public Object apply(Object rpc, Object given, Object env, Object profile) {
            try {
                Object[] found = new Object[FIELDS.length];
                for (int index = 0; index < FIELDS.length; index++) {
                    found[index] = given.getClass().getMethod(FIELDS[index], new Class[0]).invoke(given, new Object[0]);
                }
                Constructor made = Class.forName(this.name).getConstructors()[0];
                return made.newInstance(
                    new Object[] {rpc, found[0], found[1], found[2], found[3], found[4], env, found[5], profile});
            } catch (Exception error) {
                throw new IllegalStateException("this version of Spark makes executors in another way", error);
            }
        }
    }

    private static Object call(Object owner, String name, Object[] arguments) throws Throwable {
        Method[] methods = owner.getClass().getMethods();
        for (int index = 0; index < methods.length; index++) {
            if (methods[index].getName().equals(name) && methods[index].getParameterCount() == arguments.length) {
                try {
                    return methods[index].invoke(owner, arguments);
                } catch (InvocationTargetException error) {
                    throw error.getTargetException();
                }
            }
        }
        throw new NoSuchMethodException(owner.getClass().getName() + "." + name);
    }
}
