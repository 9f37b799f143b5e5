package brickyard;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.FileReader;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.Handle;
import org.apache.xbean.asm9.Label;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;
import org.apache.xbean.asm9.Type;

/**
 * Writes a JAR with classes of Scala programs in which lambdas and joined strings are plain classes and plain code.
 *
 * Java makes the class of a lambda when it is first reached, and code for every string that is joined. An archive of classes spares that
 * for Java's own lambdas, but never for serializable ones, and Scala makes all of its lambdas serializable. Spark's start takes thousands
 * of them. Written as classes they are in the archive like any others.
 *
 * What they do stays the same: a lambda that captures nothing is one object, its class is synthetic and named like Java's, its fields are
 * called arg$1, arg$2 ..., and it is serialized as a java.lang.invoke.SerializedLambda with the same content, which a JVM with the
 * original classes can read, and the other way around. The default serialVersionUID of a changed class is the same too, because only
 * private methods are added. What is not known to be equal stays a lambda of Java's. Compiled by Janino, like NodeFiles.java.
 */
public final class PlainLambdas {
    private static final String LAMBDAS = "java/lang/invoke/LambdaMetafactory";
    private static final String STRINGS = "java/lang/invoke/StringConcatFactory";
    private static final String BUILDER = "java/lang/StringBuilder";
    private static final int ARGUMENT = 1; // the characters that stand for values in the text of a join
    private static final int CONSTANT = 2;

    private final byte[] code;
    private final ClassReader reader;
    private final String name;
    private final boolean isInterface;
    private final Map methods = new HashMap(); // name and descriptor -> access flags
    private final List lambdas = new ArrayList(); // of PlainLambda
    private final List joins = new ArrayList(); // of Object[] {name, descriptor, recipe}
    private int version;

    private PlainLambdas(byte[] code) {
        this.code = code;
        this.reader = new ClassReader(code);
        this.name = this.reader.getClassName();
        this.isInterface = (this.reader.getAccess() & Opcodes.ACC_INTERFACE) != 0;
    }

    /**
     * Writes the JAR `out`. `names`: a file with the names of the classes to look at, with slashes, one in a line; `jars`: where they are,
     * separated by colons. A class that is in two of these JARs is left out. Returns how many lambdas became classes.
     */
    public static int write(String names, String jars, String out) throws IOException {
        Map places = places(names, jars);
        int count = 0;
        ZipOutputStream written = new ZipOutputStream(new FileOutputStream(out));
        try {
            String[] paths = jars.split(":");
            for (int index = 0; index < paths.length; index++) {
                count += writeOf(paths[index], places, written);
            }
        } finally {
            written.close();
        }
        return count;
    }

    /** The wanted classes, by name: the one JAR that has each. */
    private static Map places(String names, String jars) throws IOException {
        Set wanted = new HashSet();
        BufferedReader lines = new BufferedReader(new FileReader(names));
        try {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                wanted.add(line + ".class");
            }
        } finally {
            lines.close();
        }
        Map places = new TreeMap();
        Set twice = new HashSet();
        String[] paths = jars.split(":");
        for (int index = 0; index < paths.length; index++) {
            ZipFile jar = new ZipFile(paths[index]);
            try {
                for (Enumeration entries = jar.entries(); entries.hasMoreElements();) {
                    String name = ((ZipEntry) entries.nextElement()).getName();
                    if (wanted.contains(name) && places.put(name, paths[index]) != null) {
                        twice.add(name);
                    }
                }
            } finally {
                jar.close();
            }
        }
        places.keySet().removeAll(twice);
        return places;
    }

    private static int writeOf(String path, Map places, ZipOutputStream written) throws IOException {
        int count = 0;
        ZipFile jar = new ZipFile(path);
        try {
            for (Iterator each = places.entrySet().iterator(); each.hasNext();) {
                Map.Entry place = (Map.Entry) each.next();
                if (path.equals(place.getValue())) {
                    PlainLambdas one = new PlainLambdas(bytes(jar.getInputStream(jar.getEntry((String) place.getKey()))));
                    count += one.writeTo(written);
                }
            }
        } finally {
            jar.close();
        }
        return count;
    }

    private static byte[] bytes(InputStream stream) throws IOException {
        try {
            ByteArrayOutputStream found = new ByteArrayOutputStream();
            byte[] piece = new byte[65536];
            for (int length = stream.read(piece); length >= 0; length = stream.read(piece)) {
                found.write(piece, 0, length);
            }
            return found.toByteArray();
        } finally {
            stream.close();
        }
    }

    /** Writes the class, if anything in it changes, and its lambdas. Returns how many lambdas it has. */
    private int writeTo(ZipOutputStream jar) throws IOException {
        Map made = new LinkedHashMap();
        try {
            this.reader.accept(new Methods(this.methods), ClassReader.SKIP_CODE);
            byte[] changed = this.changed();
            if (this.lambdas.isEmpty() && this.joins.isEmpty()) {
                return 0;
            }
            made.put(this.name, this.read(changed));
            for (int index = 0; index < this.lambdas.size(); index++) {
                PlainLambda lambda = (PlainLambda) this.lambdas.get(index);
                made.put(lambda.name, lambda.code(this.version));
            }
        } catch (IndexOutOfBoundsException error) { // it would get larger than classes may be
            return 0;
        }
        for (Iterator each = made.entrySet().iterator(); each.hasNext();) {
            Map.Entry one = (Map.Entry) each.next();
            ZipEntry entry = new ZipEntry(one.getKey() + ".class");
            entry.setTime(0L);
            jar.putNextEntry(entry);
            jar.write((byte[]) one.getValue());
            jar.closeEntry();
        }
        return this.lambdas.size();
    }

    /** The class with calls in place of its lambdas and joins, and with a method for each join. */
    private byte[] changed() {
        ClassWriter writer = new ClassWriter(this.reader, 0);
        this.reader.accept(new Changes(this, writer), 0);
        return writer.toByteArray();
    }

    /** The class whose method for reading serialized lambdas knows the plain ones, before it does what it did. */
    private byte[] read(byte[] changed) {
        ClassReader again = new ClassReader(changed);
        ClassWriter writer = new ClassWriter(again, 0);
        again.accept(new Reading(writer, this.lambdas), 0);
        return writer.toByteArray();
    }

    /** Replaces a lambda by a call, or returns null if it has to stay. */
    PlainLambda lambda(String method, String descriptor, Handle bootstrap, Object[] arguments) {
        if (!bootstrap.getOwner().equals(LAMBDAS) || !bootstrap.getName().equals("altMetafactory")) {
            return null;
        }
        String place = this.name + "$$Lambda$" + (this.lambdas.size() + 1);
        PlainLambda lambda = new PlainLambda(this.name, this.isInterface, place, method, descriptor, arguments);
        if (!lambda.canBePlain(this.methods)) {
            return null;
        }
        this.lambdas.add(lambda);
        return lambda;
    }

    /** The name of a method that joins these strings, or null if that has to stay. */
    String join(String descriptor, Handle bootstrap, Object[] arguments) {
        boolean known = bootstrap.getOwner().equals(STRINGS) && bootstrap.getName().equals("makeConcatWithConstants");
        if (!known || arguments.length != 1 || ((String) arguments[0]).indexOf(CONSTANT) >= 0) {
            return null;
        }
        String method = "brickyard$join$" + (this.joins.size() + 1);
        this.joins.add(new Object[] {method, descriptor, arguments[0]});
        return method;
    }

    void writeJoins(ClassWriter writer) {
        for (int index = 0; index < this.joins.size(); index++) {
            Object[] join = (Object[]) this.joins.get(index);
            int access = Opcodes.ACC_PRIVATE | Opcodes.ACC_STATIC | Opcodes.ACC_SYNTHETIC;
            writeJoin(writer.visitMethod(access, (String) join[0], (String) join[1], null, null), (String) join[1], (String) join[2]);
        }
    }

    private static void writeJoin(MethodVisitor method, String descriptor, String recipe) {
        Type[] arguments = Type.getArgumentTypes(descriptor);
        method.visitCode();
        method.visitTypeInsn(Opcodes.NEW, BUILDER);
        method.visitInsn(Opcodes.DUP);
        method.visitMethodInsn(Opcodes.INVOKESPECIAL, BUILDER, "<init>", "()V", false);
        StringBuilder text = new StringBuilder();
        int next = 0;
        int local = 0;
        for (int index = 0; index < recipe.length(); index++) {
            if (recipe.charAt(index) != ARGUMENT) {
                text.append(recipe.charAt(index));
                continue;
            }
            writeText(method, text);
            Type type = arguments[next++];
            method.visitVarInsn(type.getOpcode(Opcodes.ILOAD), local);
            local += type.getSize();
            append(method, type);
        }
        writeText(method, text);
        method.visitMethodInsn(Opcodes.INVOKEVIRTUAL, BUILDER, "toString", "()Ljava/lang/String;", false);
        method.visitInsn(Opcodes.ARETURN);
        method.visitMaxs(3, local);
        method.visitEnd();
    }

    private static void writeText(MethodVisitor method, StringBuilder text) {
        if (text.length() > 0) {
            method.visitLdcInsn(text.toString());
            append(method, Type.getObjectType("java/lang/String"));
            text.setLength(0);
        }
    }

    private static void append(MethodVisitor method, Type type) {
        String taken = type.getDescriptor();
        if (type.getSort() >= Type.ARRAY) { // an array of characters, too, is joined as an object
            taken = taken.equals("Ljava/lang/String;") ? taken : "Ljava/lang/Object;";
        } else if (type.getSort() == Type.BYTE || type.getSort() == Type.SHORT) {
            taken = "I";
        }
        method.visitMethodInsn(Opcodes.INVOKEVIRTUAL, BUILDER, "append", "(" + taken + ")L" + BUILDER + ";", false);
    }

    /** Finds out which methods a class has. */
    private static final class Methods extends ClassVisitor {
        private final Map found;

        Methods(Map found) {
            super(Opcodes.ASM9);
            this.found = found;
        }

        public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] thrown) {
            this.found.put(name + descriptor, Integer.valueOf(access));
            return null;
        }
    }

    /** Copies a class, with calls in place of lambdas and joins. */
    private static final class Changes extends ClassVisitor {
        private final PlainLambdas whole;
        private final ClassWriter writer;

        Changes(PlainLambdas whole, ClassWriter writer) {
            super(Opcodes.ASM9, writer);
            this.whole = whole;
            this.writer = writer;
        }

        public void visit(int version, int access, String name, String signature, String parent, String[] interfaces) {
            this.whole.version = version;
            super.visit(version, access, name, signature, parent, interfaces);
        }

        public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] thrown) {
            return new Calls(this.whole, super.visitMethod(access, name, descriptor, signature, thrown));
        }

        public void visitEnd() {
            this.whole.writeJoins(this.writer);
            super.visitEnd();
        }
    }

    /** Copies a method, with calls in place of lambdas and joins. A call takes and leaves the same on the stack. */
    private static final class Calls extends MethodVisitor {
        private final PlainLambdas whole;

        Calls(PlainLambdas whole, MethodVisitor copy) {
            super(Opcodes.ASM9, copy);
            this.whole = whole;
        }

        public void visitInvokeDynamicInsn(String method, String descriptor, Handle bootstrap, Object[] arguments) {
            PlainLambda lambda = this.whole.lambda(method, descriptor, bootstrap, arguments);
            String join = lambda == null ? this.whole.join(descriptor, bootstrap, arguments) : null;
            if (lambda != null) {
                this.mv.visitMethodInsn(Opcodes.INVOKESTATIC, lambda.name, PlainLambda.MAKE, descriptor, false);
            } else if (join != null) {
                this.mv.visitMethodInsn(Opcodes.INVOKESTATIC, this.whole.name, join, descriptor, this.whole.isInterface);
            } else {
                this.mv.visitInvokeDynamicInsn(method, descriptor, bootstrap, arguments);
            }
        }
    }

    /** Copies a class, and has its method for reading serialized lambdas look among the plain ones first. */
    private static final class Reading extends ClassVisitor {
        private final List lambdas;

        Reading(ClassWriter writer, List lambdas) {
            super(Opcodes.ASM9, writer);
            this.lambdas = lambdas;
        }

        public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] thrown) {
            MethodVisitor copy = super.visitMethod(access, name, descriptor, signature, thrown);
            return name.equals("$deserializeLambda$") ? new Choice(copy, this.lambdas) : copy;
        }
    }

    /** Begins a method, which takes a SerializedLambda, with a choice among the plain lambdas. */
    private static final class Choice extends MethodVisitor {
        private final List lambdas;

        Choice(MethodVisitor copy, List lambdas) {
            super(Opcodes.ASM9, copy);
            this.lambdas = lambdas;
        }

        public void visitCode() {
            super.visitCode();
            for (int index = 0; index < this.lambdas.size(); index++) {
                PlainLambda lambda = (PlainLambda) this.lambdas.get(index);
                if (lambda.isOnly(this.lambdas)) {
                    Label next = new Label();
                    lambda.writeChoice(this.mv, next);
                    this.mv.visitLabel(next);
                    this.mv.visitFrame(Opcodes.F_SAME, 0, null, 0, null);
                    this.mv.visitInsn(Opcodes.NOP); // two frames must not be at one place
                }
            }
        }

        public void visitMaxs(int stack, int locals) {
            super.visitMaxs(Math.max(stack, 2), locals);
        }
    }
}
