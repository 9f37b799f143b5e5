package brickyard;

import java.io.DataInputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Iterator;
import javax.net.ServerSocketFactory;
import org.apache.spark.SparkConf;
import org.apache.spark.security.SocketAuthHelper;
import py4j.ClientServer;
import py4j.GatewayServer;

/**
 * Limits for the driver's ports on loopback, to which processes of other clusters can connect (network = shared). A peer that has
 * not yet sent the secret gets little memory and little time, and cannot keep others from connecting.
 *
 * Compiled for each runtime (compile_classes.py) with the compiler that Spark uses for its queries (Janino), which has no generics.
 */
public final class BoundedPorts {
    private BoundedPorts() {}

    /** Starts a Py4J server on a free port. It serves peers that send the token. */
    public static ClientServer py4j(String token) throws Exception {
        ClientServer server = new ClientServer.ClientServerBuilder()
            .authToken(token).javaPort(0).javaAddress(InetAddress.getLoopbackAddress()).autoStartJavaServer(false).build();
        // The builder accepts a socket factory but does not use it.
        set(GatewayServer.class, "sSocketFactory", server.getJavaServer(), new BoundedServers());
        server.startServer();
        return server;
    }

    private static void set(Class type, String name, Object object, Object value) throws Exception {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        field.set(object, value);
    }

    /** Limits what is read on the ports that return results to Python (`collect`, `toPandas`); each serves one peer. */
    public static void serveResults(SparkConf conf) throws Exception {
        Class results = Class.forName("org.apache.spark.api.python.PythonRDD$");
        Method first = results.getDeclaredMethod("authHelper", new Class[0]); // creates Spark's own helper now, so that it cannot replace ours later
        first.setAccessible(true);
        Object module = results.getField("MODULE$").get(null);
        first.invoke(module, new Object[0]);
        set(results, "authHelper", module, new BoundedSecrets(conf)); // static in Scala 2.13, where the object is ignored
    }
}

/** Reads a peer's first message on a results port: a length and a text. Spark itself would allocate up to 2 GiB for it. */
final class BoundedSecrets extends SocketAuthHelper {
    private static final int LONGEST = 1024;

    BoundedSecrets(SparkConf conf) {
        super(conf);
    }

    public String readUtf8(Socket socket) {
        try {
            DataInputStream in = new DataInputStream(socket.getInputStream());
            int length = in.readInt();
            if (length < 0 || length > LONGEST) {
                throw new IllegalArgumentException("The peer's first message is said to have " + length + " bytes; at most " + LONGEST + " are allowed.");
            }
            byte[] text = new byte[length];
            in.readFully(text);
            return new String(text, StandardCharsets.UTF_8);
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }
}

final class BoundedServers extends ServerSocketFactory {
    public ServerSocket createServerSocket() throws IOException {
        return new BoundedServer();
    }

    public ServerSocket createServerSocket(int port) throws IOException {
        return this.bound(port, 0, null);
    }

    public ServerSocket createServerSocket(int port, int backlog) throws IOException {
        return this.bound(port, backlog, null);
    }

    public ServerSocket createServerSocket(int port, int backlog, InetAddress address) throws IOException {
        return this.bound(port, backlog, address);
    }

    private ServerSocket bound(int port, int backlog, InetAddress address) throws IOException {
        ServerSocket server = this.createServerSocket();
        server.bind(new InetSocketAddress(address, port), backlog);
        return server;
    }
}

/** Holds the peers that have not sent the secret yet. When there are too many, the one that has waited longest is closed. */
final class BoundedServer extends ServerSocket {
    private static final int WAITING = 64;

    private final ArrayDeque waiting = new ArrayDeque();

    BoundedServer() throws IOException {
        super();
    }

    public Socket accept() throws IOException {
        BoundedSocket peer = new BoundedSocket();
        implAccept(peer);
        Iterator all = this.waiting.iterator();
        while (all.hasNext()) {
            BoundedSocket each = (BoundedSocket) all.next();
            if (each.hasSpoken() || each.isClosed()) {
                all.remove();
            }
        }
        if (this.waiting.size() >= WAITING) {
            ((BoundedSocket) this.waiting.poll()).close();
        }
        this.waiting.add(peer);
        return peer;
    }
}

final class BoundedSocket extends Socket {
    private FirstLines lines; // only one stream, since it counts what was read

    public synchronized InputStream getInputStream() throws IOException {
        if (this.lines == null) {
            this.lines = new FirstLines(this, super.getInputStream());
        }
        return this.lines;
    }

    synchronized boolean hasSpoken() {
        return this.lines != null && this.lines.hasPassed();
    }
}

/** Limits the two lines that Py4J reads before it trusts a peer ("A" and the secret); then lets everything through. */
final class FirstLines extends FilterInputStream {
    private static final int LINES = 2;
    private static final int LONGEST = 1024;
    private static final long PATIENCE_NS = 10L * 1000 * 1000 * 1000;

    private final Socket socket;
    private final long latest = System.nanoTime() + PATIENCE_NS;
    private int bytes = 0;
    private volatile int lines = 0;

    FirstLines(Socket socket, InputStream in) {
        super(in);
        this.socket = socket;
    }

    boolean hasPassed() {
        return this.lines >= LINES;
    }

    public int read() throws IOException {
        byte[] one = new byte[1];
        return this.read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    public int read(byte[] into, int offset, int length) throws IOException {
        if (this.hasPassed()) {
            return this.in.read(into, offset, length);
        }
        if (this.bytes >= LONGEST) {
            throw new IOException("The peer's first lines are too long.");
        }
        int timeout = this.socket.getSoTimeout();
        long left = (this.latest - System.nanoTime()) / 1000000L;
        if (left <= 0) {
            throw new SocketTimeoutException("The peer did not send the secret in time.");
        }
        this.socket.setSoTimeout((int) left);
        int count = this.in.read(into, offset, Math.min(length, LONGEST - this.bytes));
        this.socket.setSoTimeout(timeout);
        for (int index = offset; index < offset + count; index++) {
            if (into[index] == '\n') {
                this.lines++;
            }
        }
        this.bytes += Math.max(count, 0);
        return count;
    }
}
