package tests;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.Set;
import java.util.TreeSet;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/** Compares rewritten classes with the original ones, each in a class loader of its own. Compiled by Janino. */
public final class SameLambdas {
    private final ClassLoader rewritten;
    private final ClassLoader original;
    private final String jar;

    public SameLambdas(String jar, String jars) throws IOException {
        File[] files = new File(jars).listFiles();
        URL[] theirs = new URL[files.length];
        URL[] ours = new URL[files.length + 1];
        ours[0] = new File(jar).toURI().toURL();
        for (int index = 0; index < files.length; index++) {
            theirs[index] = files[index].toURI().toURL();
            ours[index + 1] = theirs[index];
        }
        this.jar = jar;
        this.rewritten = new URLClassLoader(ours, ClassLoader.getPlatformClassLoader());
        this.original = new URLClassLoader(theirs, ClassLoader.getPlatformClassLoader());
    }

    /** Which rewritten classes Java does not verify, a line for each, and last how many there are. */
    public String unverified() throws Exception {
        StringBuilder found = new StringBuilder();
        int count = 0;
        ZipFile zip = new ZipFile(this.jar);
        for (Enumeration entries = zip.entries(); entries.hasMoreElements();) {
            String name = ((ZipEntry) entries.nextElement()).getName();
            name = name.substring(0, name.length() - ".class".length()).replace('/', '.');
            count++;
            try {
                Class.forName(name, false, this.rewritten).getDeclaredConstructors(); // links it, and so verifies it
            } catch (Throwable error) {
                found.append(name).append(": ").append(error).append('\n');
            }
        }
        zip.close();
        return found.append(count).toString();
    }

    /** How each lambda whose class's name begins so differs from the original when it is serialized and read, a line for each, and
     * last how many were compared. */
    public String differences(String beginning) throws Exception {
        StringBuilder found = new StringBuilder();
        int compared = 0;
        ZipFile zip = new ZipFile(this.jar);
        for (Enumeration entries = zip.entries(); entries.hasMoreElements();) {
            String name = ((ZipEntry) entries.nextElement()).getName();
            if (!name.startsWith(beginning) || name.indexOf("$$Lambda$") < 0) {
                continue;
            }
            name = name.substring(0, name.length() - ".class".length()).replace('/', '.');
            try {
                String difference = this.difference(name);
                compared += difference == null ? 0 : 1;
                if (difference != null && difference.length() > 0) {
                    found.append(name).append(": ").append(difference).append('\n');
                }
            } catch (Throwable error) {
                found.append(name).append(": ").append(error).append(" ").append(error.getCause()).append('\n');
            }
        }
        zip.close();
        return found.append(compared).toString();
    }

    /** Null if the lambda captures what cannot be made here, or its class cannot be made ready. */
    private String difference(String name) throws Exception {
        Class own = Class.forName(name, true, this.rewritten);
        if (!own.isSynthetic()) {
            return "not synthetic";
        }
        Object lambda = made(own);
        byte[] written = written(lambda);
        Object theirs = null;
        try {
            theirs = read(written, this.original);
        } catch (Throwable error) { // the class around it cannot be initialized alone
            return null;
        }
        if (!theirs.getClass().isHidden()) {
            return "the original is no lambda of Java's";
        }
        if (!Arrays.equals(written(theirs), written)) {
            return "is serialized differently";
        }
        Object again = read(written, this.rewritten);
        if (again.getClass() != own && !again.getClass().isHidden()) { // two with the same body are read as Java's
            return "is read as " + again.getClass();
        }
        if (!faces(own).equals(faces(theirs.getClass()))) {
            return "is " + faces(own) + " instead of " + faces(theirs.getClass());
        }
        boolean one = made(own) == lambda;
        return one == (own.getDeclaredConstructors()[0].getParameterTypes().length == 0) ? "" : "the wrong identity";
    }

    /** Its interfaces without scala.Serializable, which Scala 2.12 gives to lambdas where they are made and not where they are read. */
    private static Set faces(Class one) {
        Set names = new TreeSet();
        for (int index = 0; index < one.getInterfaces().length; index++) {
            names.add(one.getInterfaces()[index].getName());
        }
        names.remove("scala.Serializable");
        names.remove("java.io.Serializable");
        return names;
    }

    /** A lambda that captures nothing, null, or zeros. */
    private static Object made(Class own) throws Exception {
        Method[] methods = own.getDeclaredMethods();
        for (int index = 0; index < methods.length; index++) {
            if (methods[index].getName().equals("make") && Modifier.isStatic(methods[index].getModifiers())) {
                Class[] types = methods[index].getParameterTypes();
                Object[] arguments = new Object[types.length];
                for (int each = 0; each < types.length; each++) {
                    arguments[each] = types[each].isPrimitive() ? java.lang.reflect.Array.get(
                        java.lang.reflect.Array.newInstance(types[each], 1), 0) : null;
                }
                methods[index].setAccessible(true);
                return methods[index].invoke(null, arguments);
            }
        }
        throw new IllegalStateException("it has no method that makes it");
    }

    private static byte[] written(Object object) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        ObjectOutputStream out = new ObjectOutputStream(bytes);
        out.writeObject(object);
        out.close();
        return bytes.toByteArray();
    }

    private static Object read(byte[] bytes, ClassLoader loader) throws Exception {
        return new Reader(new ByteArrayInputStream(bytes), loader).readObject();
    }

    private static final class Reader extends ObjectInputStream {
        private final ClassLoader loader;

        Reader(InputStream stream, ClassLoader loader) throws IOException {
            super(stream);
            this.loader = loader;
        }

        protected Class resolveClass(ObjectStreamClass description) throws IOException, ClassNotFoundException {
            return Class.forName(description.getName(), false, this.loader);
        }
    }
}
