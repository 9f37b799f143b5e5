package brickyard;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.Handle;
import org.apache.xbean.asm9.Label;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;
import org.apache.xbean.asm9.Type;

/** One lambda of a class, and the plain class that it becomes (PlainLambdas.java). */
public final class PlainLambda {
    public static final String MAKE = "make";
    private static final String READ = "read";
    private static final String OBJECT = "java/lang/Object";
    private static final String SERIALIZED = "java/lang/invoke/SerializedLambda";
    private static final String FORM = "(Ljava/lang/invoke/SerializedLambda;)Ljava/lang/Object;";
    private static final String PARTS = "(Ljava/lang/Class;Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;ILjava/lang/String;"
        + "Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;[Ljava/lang/Object;)V";
    private static final int SERIALIZABLE = 1; // the flags of LambdaMetafactory.altMetafactory
    private static final int MARKERS = 2;
    private static final int BRIDGES = 4;

    public final String name;
    private final String host;
    private final boolean inInterface;
    private final String method;
    private final Type face; // the functional interface
    private final Type[] captured;
    private final String made; // descriptor: what it captures -> the functional interface
    private final Type form; // of the interface's method
    private final Handle body;
    private final Type exact; // `form`, with the types that it really has
    private final int flags;
    private final List more = new ArrayList(); // interfaces that it has as well
    private final List forms = new ArrayList(); // all forms of the method

    /** `arguments`: those of LambdaMetafactory.altMetafactory. */
    public PlainLambda(String host, boolean inInterface, String name, String method, String descriptor, Object[] arguments) {
        this.host = host;
        this.inInterface = inInterface;
        this.name = name;
        this.method = method;
        this.made = descriptor;
        this.face = Type.getReturnType(descriptor);
        this.captured = Type.getArgumentTypes(descriptor);
        this.form = (Type) arguments[0];
        this.body = (Handle) arguments[1];
        this.exact = (Type) arguments[2];
        this.flags = ((Integer) arguments[3]).intValue();
        this.forms.add(this.form);
        int next = 4;
        if ((this.flags & MARKERS) != 0) {
            next = take(arguments, next, this.more);
        }
        if ((this.flags & BRIDGES) != 0) {
            take(arguments, next, this.forms);
        }
    }

    private static int take(Object[] arguments, int at, List found) {
        int count = ((Integer) arguments[at]).intValue();
        for (int index = 1; index <= count; index++) {
            found.add(arguments[at + index]);
        }
        return at + 1 + count;
    }

    /** Whether a plain class surely does the same: its body is a static method of the class around it that others may call, and no
     * argument and no result changes between an object and a plain value. `methods`: those of the class around it. */
    public boolean canBePlain(Map methods) {
        Integer access = (Integer) methods.get(this.body.getName() + this.body.getDesc());
        boolean own = this.body.getTag() == Opcodes.H_INVOKESTATIC && this.body.getOwner().equals(this.host) && access != null;
        if ((this.flags & SERIALIZABLE) == 0 || !own || (access.intValue() & Opcodes.ACC_PRIVATE) != 0) {
            return false;
        }
        Type[] taken = Type.getArgumentTypes(this.body.getDesc());
        for (int index = 0; index < this.captured.length; index++) {
            if (!this.captured[index].equals(taken[index])) {
                return false;
            }
        }
        for (int index = 0; index < this.forms.size(); index++) {
            if (!this.fits((Type) this.forms.get(index), taken)) {
                return false;
            }
        }
        return true;
    }

    private boolean fits(Type one, Type[] taken) {
        Type[] given = one.getArgumentTypes();
        Type[] exactly = this.exact.getArgumentTypes();
        if (this.captured.length + given.length != taken.length) {
            return false;
        }
        for (int index = 0; index < given.length; index++) {
            Type wanted = taken[this.captured.length + index];
            if (!alike(given[index], wanted) || !alike(exactly[index], wanted)) {
                return false;
            }
        }
        Type found = Type.getReturnType(this.body.getDesc());
        Type result = one.getReturnType();
        return result.getSort() == Type.VOID || alike(result, found) && alike(this.exact.getReturnType(), found);
    }

    /** Whether both are objects, or the same plain value. */
    private static boolean alike(Type one, Type other) {
        return isObject(one) && isObject(other) || one.equals(other);
    }

    private static boolean isObject(Type type) {
        return type.getSort() >= Type.ARRAY;
    }

    /** Whether no other of these has the same body. */
    public boolean isOnly(List lambdas) {
        for (int index = 0; index < lambdas.size(); index++) {
            PlainLambda other = (PlainLambda) lambdas.get(index);
            if (other != this && other.body.getName().equals(this.body.getName())) {
                return false;
            }
        }
        return true;
    }

    /** Writes code that returns this lambda if the SerializedLambda, the first local variable, is of it, and else jumps to `next`. */
    public void writeChoice(MethodVisitor code, Label next) {
        code.visitVarInsn(Opcodes.ALOAD, 0);
        code.visitMethodInsn(Opcodes.INVOKEVIRTUAL, SERIALIZED, "getImplMethodName", "()Ljava/lang/String;", false);
        code.visitLdcInsn(this.body.getName());
        code.visitMethodInsn(Opcodes.INVOKEVIRTUAL, "java/lang/String", "equals", "(Ljava/lang/Object;)Z", false);
        code.visitJumpInsn(Opcodes.IFEQ, next);
        code.visitVarInsn(Opcodes.ALOAD, 0);
        code.visitMethodInsn(Opcodes.INVOKESTATIC, this.name, READ, FORM, false);
        code.visitInsn(Opcodes.ARETURN);
    }

    /** The class. `version`: of its format. */
    public byte[] code(int version) {
        ClassWriter writer = new ClassWriter(0);
        Set faces = new LinkedHashSet();
        faces.add(this.face.getInternalName());
        for (int index = 0; index < this.more.size(); index++) {
            faces.add(((Type) this.more.get(index)).getInternalName());
        }
        faces.add("java/io/Serializable");
        String[] all = (String[]) faces.toArray(new String[0]);
        writer.visit(version, Opcodes.ACC_FINAL | Opcodes.ACC_SYNTHETIC | Opcodes.ACC_SUPER, this.name, null, OBJECT, all);
        this.writeConstructor(writer);
        this.writeMake(writer);
        Set written = new HashSet();
        for (int index = 0; index < this.forms.size(); index++) {
            Type one = (Type) this.forms.get(index);
            if (written.add(one.getDescriptor())) {
                this.writeMethod(writer, one);
            }
        }
        this.writeReplace(writer);
        this.writeRead(writer);
        writer.visitEnd();
        return writer.toByteArray();
    }

    private String constructor() {
        return Type.getMethodDescriptor(Type.VOID_TYPE, this.captured);
    }

    private void writeConstructor(ClassWriter writer) {
        MethodVisitor code = writer.visitMethod(Opcodes.ACC_PRIVATE, "<init>", this.constructor(), null, null);
        code.visitCode();
        code.visitVarInsn(Opcodes.ALOAD, 0);
        code.visitMethodInsn(Opcodes.INVOKESPECIAL, OBJECT, "<init>", "()V", false);
        int local = 1;
        for (int index = 0; index < this.captured.length; index++) {
            String type = this.captured[index].getDescriptor();
            writer.visitField(Opcodes.ACC_PRIVATE | Opcodes.ACC_FINAL, field(index), type, null, null).visitEnd();
            code.visitVarInsn(Opcodes.ALOAD, 0);
            code.visitVarInsn(this.captured[index].getOpcode(Opcodes.ILOAD), local);
            code.visitFieldInsn(Opcodes.PUTFIELD, this.name, field(index), type);
            local += this.captured[index].getSize();
        }
        end(code, Opcodes.RETURN, 3, local);
    }

    private static String field(int index) {
        return "arg$" + (index + 1);
    }

    private static void end(MethodVisitor code, int how, int stack, int locals) {
        code.visitInsn(how);
        code.visitMaxs(stack, locals);
        code.visitEnd();
    }

    /** A static method in place of the lambda. What captures nothing is one object. */
    private void writeMake(ClassWriter writer) {
        MethodVisitor code = writer.visitMethod(Opcodes.ACC_STATIC, MAKE, this.made, null, null);
        code.visitCode();
        if (this.captured.length > 0) {
            int local = this.writeNew(code);
            end(code, Opcodes.ARETURN, 2 + local, local);
            return;
        }
        String type = "L" + this.name + ";";
        code.visitFieldInsn(Opcodes.GETSTATIC, this.name, "ONE", type);
        end(code, Opcodes.ARETURN, 1, 0);
        writer.visitField(Opcodes.ACC_PRIVATE | Opcodes.ACC_STATIC | Opcodes.ACC_FINAL, "ONE", type, null, null).visitEnd();
        MethodVisitor first = writer.visitMethod(Opcodes.ACC_STATIC, "<clinit>", "()V", null, null);
        first.visitCode();
        this.writeNew(first);
        first.visitFieldInsn(Opcodes.PUTSTATIC, this.name, "ONE", type);
        end(first, Opcodes.RETURN, 2, 0);
    }

    private int writeNew(MethodVisitor code) {
        code.visitTypeInsn(Opcodes.NEW, this.name);
        code.visitInsn(Opcodes.DUP);
        int local = 0;
        for (int index = 0; index < this.captured.length; index++) {
            code.visitVarInsn(this.captured[index].getOpcode(Opcodes.ILOAD), local);
            local += this.captured[index].getSize();
        }
        code.visitMethodInsn(Opcodes.INVOKESPECIAL, this.name, "<init>", this.constructor(), false);
        return local;
    }

    private void load(MethodVisitor code, int index) {
        code.visitVarInsn(Opcodes.ALOAD, 0);
        code.visitFieldInsn(Opcodes.GETFIELD, this.name, field(index), this.captured[index].getDescriptor());
    }

    /** The interface's method, in one of its forms: calls the body. */
    private void writeMethod(ClassWriter writer, Type one) {
        MethodVisitor code = writer.visitMethod(Opcodes.ACC_PUBLIC, this.method, one.getDescriptor(), null, null);
        code.visitCode();
        int stack = 2;
        for (int index = 0; index < this.captured.length; index++) {
            this.load(code, index);
            stack += this.captured[index].getSize();
        }
        Type[] given = one.getArgumentTypes();
        Type[] exactly = this.exact.getArgumentTypes();
        Type[] taken = Type.getArgumentTypes(this.body.getDesc());
        int local = 1;
        for (int index = 0; index < given.length; index++) {
            code.visitVarInsn(given[index].getOpcode(Opcodes.ILOAD), local);
            cast(code, given[index], exactly[index]);
            cast(code, exactly[index], taken[this.captured.length + index]);
            local += given[index].getSize();
            stack += given[index].getSize();
        }
        code.visitMethodInsn(Opcodes.INVOKESTATIC, this.host, this.body.getName(), this.body.getDesc(), this.inInterface);
        Type found = Type.getReturnType(this.body.getDesc());
        Type wanted = one.getReturnType();
        if (wanted.getSort() != Type.VOID) {
            cast(code, found, this.exact.getReturnType());
            cast(code, this.exact.getReturnType(), wanted);
        } else if (found.getSort() != Type.VOID) {
            code.visitInsn(found.getSize() == 2 ? Opcodes.POP2 : Opcodes.POP);
        }
        end(code, wanted.getOpcode(Opcodes.IRETURN), stack, local);
    }

    /** Makes one type of objects another, where Java's lambdas do. */
    private static void cast(MethodVisitor code, Type one, Type other) {
        if (isObject(other) && !one.equals(other) && !other.getInternalName().equals(OBJECT)) {
            code.visitTypeInsn(Opcodes.CHECKCAST, other.getInternalName());
        }
    }

    /** How it is serialized: as Java's own lambdas are. */
    private void writeReplace(ClassWriter writer) {
        int access = Opcodes.ACC_PRIVATE | Opcodes.ACC_FINAL;
        MethodVisitor code = writer.visitMethod(access, "writeReplace", "()Ljava/lang/Object;", null, null);
        code.visitCode();
        code.visitTypeInsn(Opcodes.NEW, SERIALIZED);
        code.visitInsn(Opcodes.DUP);
        code.visitLdcInsn(Type.getObjectType(this.host));
        code.visitLdcInsn(this.face.getInternalName());
        code.visitLdcInsn(this.method);
        code.visitLdcInsn(this.form.getDescriptor());
        code.visitIntInsn(Opcodes.BIPUSH, this.body.getTag());
        code.visitLdcInsn(this.body.getOwner());
        code.visitLdcInsn(this.body.getName());
        code.visitLdcInsn(this.body.getDesc());
        code.visitLdcInsn(this.exact.getDescriptor());
        code.visitIntInsn(Opcodes.SIPUSH, this.captured.length);
        code.visitTypeInsn(Opcodes.ANEWARRAY, OBJECT);
        for (int index = 0; index < this.captured.length; index++) {
            code.visitInsn(Opcodes.DUP);
            code.visitIntInsn(Opcodes.SIPUSH, index);
            this.load(code, index);
            if (!isObject(this.captured[index])) {
                String box = box(this.captured[index]);
                String form = "(" + this.captured[index].getDescriptor() + ")L" + box + ";";
                code.visitMethodInsn(Opcodes.INVOKESTATIC, box, "valueOf", form, false);
            }
            code.visitInsn(Opcodes.AASTORE);
        }
        code.visitMethodInsn(Opcodes.INVOKESPECIAL, SERIALIZED, "<init>", PARTS, false);
        end(code, Opcodes.ARETURN, 16, 1);
    }

    /** A static method that makes the lambda from what `writeReplace` has made. */
    private void writeRead(ClassWriter writer) {
        MethodVisitor code = writer.visitMethod(Opcodes.ACC_STATIC, READ, FORM, null, null);
        code.visitCode();
        int stack = 2;
        for (int index = 0; index < this.captured.length; index++) {
            Type type = this.captured[index];
            code.visitVarInsn(Opcodes.ALOAD, 0);
            code.visitIntInsn(Opcodes.SIPUSH, index);
            code.visitMethodInsn(Opcodes.INVOKEVIRTUAL, SERIALIZED, "getCapturedArg", "(I)Ljava/lang/Object;", false);
            cast(code, Type.getObjectType(OBJECT), type);
            if (!isObject(type)) {
                code.visitTypeInsn(Opcodes.CHECKCAST, box(type));
                String value = type.getClassName() + "Value";
                code.visitMethodInsn(Opcodes.INVOKEVIRTUAL, box(type), value, "()" + type.getDescriptor(), false);
            }
            stack += type.getSize();
        }
        code.visitMethodInsn(Opcodes.INVOKESTATIC, this.name, MAKE, this.made, false);
        end(code, Opcodes.ARETURN, stack, 1);
    }

    private static String box(Type type) {
        switch (type.getSort()) {
            case Type.BOOLEAN: return "java/lang/Boolean";
            case Type.BYTE: return "java/lang/Byte";
            case Type.CHAR: return "java/lang/Character";
            case Type.SHORT: return "java/lang/Short";
            case Type.INT: return "java/lang/Integer";
            case Type.LONG: return "java/lang/Long";
            case Type.FLOAT: return "java/lang/Float";
            default: return "java/lang/Double";
        }
    }
}
