package brickyard;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.sql.Driver;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.jdbc.DriverWrapper;
import org.apache.spark.sql.execution.datasources.jdbc.connection.BasicConnectionProvider;
import org.sparkproject.connect.grpc.ForwardingServerCallListener;
import org.sparkproject.connect.grpc.Metadata;
import org.sparkproject.connect.grpc.ServerCall;
import org.sparkproject.connect.grpc.ServerCallHandler;
import org.sparkproject.connect.grpc.ServerInterceptor;
import org.sparkproject.connect.grpc.Status;
import org.sparkproject.connect.protobuf.Descriptors;
import org.sparkproject.connect.protobuf.Message;

/**
 * Checks every Spark Connect call of a cluster that keeps its users apart. A call carries either the cluster's token and its user's
 * name, which replaces the name that the client sent, or the token of one context's session, which is valid for that session only.
 * Anything that would bring code into the driver's JVM is refused.
 *
 * Compiled where it is used (connect/apart.py) with the compiler that Spark uses for its queries (Janino), which has no generics.
 */
public final class UserGuard implements ServerInterceptor {
    private static final Metadata.Key AUTHORIZATION = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
    private static final Metadata.Key USER = Metadata.Key.of("x-brickyard-user", Metadata.ASCII_STRING_MARSHALLER);
    private static final String BEARER = "Bearer ", SESSION = "session-", CONTEXT = "context";
    private static final String ELSEWHERE =
        " This cluster keeps its users apart (data_security_mode USER_ISOLATION), and all of them share the driver's JVM. Use a cluster "
        + "with data_security_mode SINGLE_USER or NONE.";
    private static final Set JAVA_MESSAGES = new HashSet(Arrays.asList(new Object[] {
        "spark.connect.ScalarScalaUDF", "spark.connect.JavaUDF"}));
    private static final Set ARTIFACTS = new HashSet(Arrays.asList(new Object[] {
        "pyfiles", "files", "archives", "cache", "forward_to_fs"}));
    private static final Set PLANS = new HashSet(Arrays.asList(new Object[] {
        "AddJarsCommand", "CreateFunctionCommand", "ScriptTransformation", "CallMethodViaReflection", "TryReflect"}));

    private static String token = "";
    private static byte[] key = new byte[] {0};

    /** Call once before the server starts. The fields are static because Spark creates the instances, without arguments. */
    public void prepare(String clusterToken, String sessionKey) {
        token = clusterToken;
        key = sessionKey.getBytes(StandardCharsets.UTF_8);
    }

    public ServerCall.Listener interceptCall(ServerCall call, Metadata headers, ServerCallHandler next) {
        String given = (String) headers.get(AUTHORIZATION);
        String user = (String) headers.get(USER);
        if (given != null && given.startsWith(BEARER + SESSION)) {
            return new Checked(call, next.startCall(call, headers), given.substring(BEARER.length()), CONTEXT);
        }
        if (token.length() > 0 && given != null && same(given, BEARER + token) && user != null && !user.equals(CONTEXT)) {
            return new Checked(call, next.startCall(call, headers), null, user);
        }
        call.close(Status.UNAUTHENTICATED.withDescription("The call has no token of this cluster."), new Metadata());
        return new ServerCall.Listener() {};
    }

    static boolean same(String one, String other) {
        return MessageDigest.isEqual(one.getBytes(StandardCharsets.UTF_8), other.getBytes(StandardCharsets.UTF_8));
    }

    /** The token for a session. */
    static String tokenOf(String session) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            byte[] digest = mac.doFinal(session.getBytes(StandardCharsets.UTF_8));
            StringBuilder text = new StringBuilder(SESSION);
            for (int i = 0; i < digest.length; i++) {
                text.append(Character.forDigit((digest[i] >> 4) & 15, 16)).append(Character.forDigit(digest[i] & 15, 16));
            }
            return text.toString();
        } catch (java.security.GeneralSecurityException error) {
            throw new SecurityException(error.toString());
        }
    }

    /** Refuses a message that holds anything forbidden at any depth. */
    static void inspect(Message message) {
        String kind = message.getDescriptorForType().getFullName();
        if (JAVA_MESSAGES.contains(kind)) {
            throw new SecurityException("Functions in Java or Scala cannot be used here." + ELSEWHERE);
        }
        for (Iterator fields = message.getAllFields().entrySet().iterator(); fields.hasNext();) {
            Map.Entry entry = (Map.Entry) fields.next();
            Descriptors.FieldDescriptor field = (Descriptors.FieldDescriptor) entry.getKey();
            String name = field.getName();
            if (kind.startsWith("spark.connect.AddArtifactsRequest.") && name.equals("name")) {
                inspectArtifact((String) entry.getValue());
            } else if (name.equals("key") && field.getJavaType() == Descriptors.FieldDescriptor.JavaType.STRING) {
                Apart.inspectKey((String) entry.getValue());
            } else if (name.equals("is_global") && Boolean.TRUE.equals(entry.getValue())) {
                Apart.refuseGlobalView();
            } else if (name.equals("listener_payload")) {
                throw new SecurityException("Listeners in Java or Scala cannot be used here." + ELSEWHERE);
            } else if (field.getJavaType() == Descriptors.FieldDescriptor.JavaType.MESSAGE) {
                if (field.isRepeated()) {
                    for (Iterator each = ((List) entry.getValue()).iterator(); each.hasNext();) {
                        inspect((Message) each.next());
                    }
                } else {
                    inspect((Message) entry.getValue());
                }
            }
        }
    }

    static void inspectArtifact(String name) {
        Path path = Paths.get(name, new String[0]).normalize();
        if (path.isAbsolute() || !ARTIFACTS.contains(path.getName(0).toString())) {
            throw new SecurityException("Classes and JAR files cannot be added here." + ELSEWHERE);
        }
    }

    /** One call. Its requests are checked before Spark sees them. */
    static final class Checked extends ForwardingServerCallListener.SimpleForwardingServerCallListener {
        private final ServerCall call;
        private final String sessionToken;
        private final String user;
        private boolean refused = false;

        Checked(ServerCall call, ServerCall.Listener next, String sessionToken, String user) {
            super(next);
            this.call = call;
            this.sessionToken = sessionToken;
            this.user = user;
        }

        public void onMessage(Object message) {
            if (refused) {
                return;
            }
            Object checked;
            try {
                checked = check((Message) message);
            } catch (RuntimeException error) {
                refused = true;
                call.close(Status.PERMISSION_DENIED.withDescription(error.getMessage()), new Metadata());
                return;
            }
            super.onMessage(checked);
        }

        public void onHalfClose() {
            if (!refused) {
                super.onHalfClose();
            }
        }

        private Message check(Message message) {
            Descriptors.Descriptor kind = message.getDescriptorForType();
            Descriptors.FieldDescriptor session = kind.findFieldByName("session_id");
            Descriptors.FieldDescriptor context = kind.findFieldByName("user_context");
            if (session == null || context == null) {
                throw new SecurityException("The call names no session.");
            }
            if (sessionToken != null && !same(sessionToken, tokenOf((String) message.getField(session)))) {
                throw new SecurityException("The token belongs to another session.");
            }
            inspect(message);
            Message.Builder owner = ((Message) message.getField(context)).toBuilder();
            owner.setField(context.getMessageType().findFieldByName("user_id"), user);
            Message.Builder owned = message.toBuilder();
            owned.setField(context, owner.build());
            return owned.build();
        }
    }

    /** A rule for SparkSessionExtensions.injectCheckRule. It refuses commands that load classes or start programs. */
    public static final class Plans implements scala.Function1 {
        public Object apply(Object session) {
            return new Plan();
        }
    }

    public static final class Plan implements scala.Function1 {
        public Object apply(Object plan) {
            check((TreeNode) plan);
            return scala.runtime.BoxedUnit.UNIT;
        }

        private static void check(TreeNode node) {
            String kind = node.getClass().getName();
            if (PLANS.contains(kind.substring(kind.lastIndexOf('.') + 1))) {
                throw new SecurityException(
                    "ADD JAR, TRANSFORM, functions made of classes, and reflection cannot be used here." + ELSEWHERE);
            }
            checkAll(node.children().iterator());
            checkAll(node.innerChildren().iterator());
            if (node instanceof QueryPlan) {
                checkAll(((QueryPlan) node).expressions().iterator());
            }
        }

        private static void checkAll(scala.collection.Iterator nodes) {
            while (nodes.hasNext()) {
                Object node = nodes.next();
                if (node instanceof TreeNode) {
                    check((TreeNode) node);
                }
            }
        }
    }

    /** A parser for SparkSessionExtensions.injectParser. It refuses what must not even be resolved (Apart.java). */
    public static final class Parsers implements scala.Function2 {
        public Object apply(Object session, Object parser) {
            return ApartParser.over((ParserInterface) parser);
        }
    }

    /** JDBC to any database except Derby, which runs in the driver's JVM and whose SQL can call any Java method there. */
    public static final class Jdbc extends BasicConnectionProvider {
        public boolean canHandle(Driver driver, scala.collection.immutable.Map options) {
            Driver real = driver instanceof DriverWrapper ? ((DriverWrapper) driver).wrapped() : driver;
            return !real.getClass().getName().startsWith("org.apache.derby.") && super.canHandle(driver, options);
        }
    }
}
