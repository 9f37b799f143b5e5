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
 * Lets in calls that bear the cluster's token, and no others: what Spark 4's Connect server does itself, for Spark 3's.
 *
 * Compiled where it is used (connect/older.py) by the compiler that Spark brings for its queries, which knows no generics.
 */
public final class TokenGuard implements ServerInterceptor {
    private static final Metadata.Key AUTHORIZATION = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

    private final byte[] expected;

    /** Spark makes it, with no arguments. */
    public TokenGuard() {
        String token = SparkEnv.get().conf().get("spark.brickyard.connect.token");
        this.expected = ("Bearer " + token).getBytes(StandardCharsets.UTF_8);
    }

    public ServerCall.Listener interceptCall(ServerCall call, Metadata headers, ServerCallHandler next) {
        String given = (String) headers.get(AUTHORIZATION);
        if (given != null && MessageDigest.isEqual(given.getBytes(StandardCharsets.UTF_8), this.expected)) {
            return next.startCall(call, headers);
        }
        call.close(Status.UNAUTHENTICATED.withDescription("The call does not bear this cluster's token."), new Metadata());
        return new ServerCall.Listener() {};
    }
}
