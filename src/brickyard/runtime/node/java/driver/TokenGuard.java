package brickyard;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import org.apache.spark.SparkEnv;
import org.sparkproject.connect.grpc.Metadata;
import org.sparkproject.connect.grpc.ServerCall;
import org.sparkproject.connect.grpc.ServerCallHandler;
import org.sparkproject.connect.grpc.ServerInterceptor;
import org.sparkproject.connect.grpc.Status;

/**
 * Accepts only calls that carry the cluster's token. For the Connect server of Spark 3; that of Spark 4 does it itself.
 *
 * Compiled where it is used (connect/older.py) with the compiler that Spark uses for its queries (Janino), which has no generics.
 */
public final class TokenGuard implements ServerInterceptor {
    private static final Metadata.Key AUTHORIZATION = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

    private final byte[] expected;

    /** Spark creates the instance, without arguments. */
    public TokenGuard() {
        String token = SparkEnv.get().conf().get("spark.brickyard.connect.token");
        this.expected = ("Bearer " + token).getBytes(StandardCharsets.UTF_8);
    }

    public ServerCall.Listener interceptCall(ServerCall call, Metadata headers, ServerCallHandler next) {
        String given = (String) headers.get(AUTHORIZATION);
        if (given != null && MessageDigest.isEqual(given.getBytes(StandardCharsets.UTF_8), this.expected)) {
            return next.startCall(call, headers);
        }
        call.close(Status.UNAUTHENTICATED.withDescription("The call has no token of this cluster."), new Metadata());
        return new ServerCall.Listener() {};
    }
}
