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
 * The driver's ports on loopback, where processes of other clusters can connect to them (network = shared). Until a peer has
 * shown the secret it gets little memory, little time, and no place that somebody else needs.
 *
 * Compiled for each runtime (compile_classes.py) by the compiler that Spark brings for its queries, which knows no generics.
 */
public final class BoundedPorts {
    private BoundedPorts() {}

    /** A Py4J server on a free port, which serves whoever shows the token. */
    public static ClientServer py4j(String token) throws Exception {
        ClientServer server = new ClientServer.ClientServerBuilder()
            .authToken(token).javaPort(0).javaAddress(InetAddress.getLoopbackAddress()).autoStartJavaServer(false).build();
        // The builder takes a factory for sockets, and does not use it.
        set(GatewayServer.class, "sSocketFactory", server.getJavaServer(), new BoundedServers());
        server.startServer();
        return server;
    }

    private static void set(Class type, String name, Object object, Object value) throws Exception {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        field.set(object, value);
    }

    /** Bound what is read on the ports that serve results to Python (`collect`, `toPandas`), each for one peer. */
    public static void serveResults(SparkConf conf) throws Exception {
        Class results = Class.forName("org.apache.spark.api.python.PythonRDD$");
        Method first = results.getDeclaredMethod("authHelper", new Class[0]); // makes Spark's own, which must not come later
        first.setAccessible(true);
        Object module = results.getField("MODULE$").get(null);
        first.invoke(module, new Object[0]);
        set(results, "authHelper", module, new BoundedSecrets(conf)); // static in Scala 2.13: no object is looked at
    }
}

/** What a peer says first on a port that serves results: a length and a text. Spark would make room for 2 GiB. */
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
                throw new IllegalArgumentException("The peer's first message claims " + length + " bytes.");
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

/** Peers that have yet to show the secret wait here. One too many takes the place of the one that has waited longest. */
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
    private FirstLines lines; // one stream: what it has counted must not be counted anew

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

/** Lets through what Py4J reads before it decides, "A" and the secret, each a line, within bounds; then everything. */
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
            throw new SocketTimeoutException("The peer has not shown the secret in time.");
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
