package brickyard;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.FileSystems;
import java.util.Map;

/**
 * What Java reads once, when a JVM starts, and never again: environment variables and the working directory. Changes them as if the JVM
 * had been started with others. Throws where this version of Java keeps them elsewhere. Compiled as NodeFiles.java is.
 */
public final class Surroundings {
    private static final String DIRECTORY = "user.dir";

    private Surroundings() {
    }

    /** Changes one variable, for this JVM and for the processes that it starts. */
    public static void variable(String name, String value) throws Exception {
        variables().put(name, value);
    }

    /** Replaces all variables. */
    static void variables(Map wanted) throws Exception {
        Map own = variables();
        own.clear();
        own.putAll(wanted);
    }

    /** The variables behind System.getenv(), which ProcessBuilder copies. */
    private static Map variables() throws Exception {
        Map shown = System.getenv();
        return (Map) field(shown.getClass(), "m").get(shown);
    }

    /** The process is in another directory now: relative paths mean that one. */
    static void directory(String path) throws Exception {
        if (!new File("/proc/self/cwd").getCanonicalPath().equals(new File(path).getCanonicalPath())) {
            throw new IOException("this process is not in " + path);
        }
        System.setProperty(DIRECTORY, path);
        Field[] fields = File.class.getDeclaredFields();
        boolean found = false;
        for (int index = 0; index < fields.length; index++) {
            if (fields[index].getType().getName().equals("java.io.FileSystem")) {
                fields[index].setAccessible(true);
                Object files = fields[index].get(null);
                field(files.getClass(), "userDir").set(files, path);
                found = true;
            }
        }
        Object files = FileSystems.getDefault();
        field(files.getClass().getSuperclass(), "defaultDirectory").set(files, path.getBytes());
        if (!found || !new File("x").getAbsolutePath().equals(path + "/x")) {
            throw new IOException("this Java keeps its working directory");
        }
    }

    private static Field field(Class owner, String name) throws Exception {
        Field found = owner.getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }
}
