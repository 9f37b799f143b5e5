package brickyard;

import com.google.cloud.hadoop.repackaged.gcs.com.google.auth.oauth2.ServiceAccountCredentials;
import com.google.cloud.hadoop.util.AccessTokenProvider;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.util.Collections;
import org.apache.hadoop.conf.Configuration;

/**
 * The key of a service account whose parts are in the cluster's conf, by the names that Databricks has for them. The connector itself
 * takes it from a file alone. Compiled with the layer's JAR.
 */
public final class ServiceAccountKey implements AccessTokenProvider {
    private static final String PREFIX = "fs.gs.auth.service.account.";
    private static final String[] PARTS = {PREFIX + "email", PREFIX + "private.key.id", PREFIX + "private.key"};
    private static final String SERVER = "fs.gs.token.server.url"; // the connector's name for it
    private static final String SCOPE = "https://www.googleapis.com/auth/cloud-platform";

    private Configuration conf;
    private ServiceAccountCredentials key;

    public void setConf(Configuration given) {
        this.conf = given;
        String[] values = new String[PARTS.length];
        for (int index = 0; index < PARTS.length; index++) {
            values[index] = given.get(PARTS[index], "").trim();
            if (values[index].isEmpty()) {
                throw new IllegalArgumentException(
                    "There is no " + PARTS[index] + ": give the cluster's spark_conf the key of a service account, as "
                    + "spark.hadoop." + PARTS[0] + ", spark.hadoop." + PARTS[1] + " and spark.hadoop." + PARTS[2] + ".");
            }
        }
        try { // a key that was copied from its JSON file has \n in place of its line breaks
            this.key = ServiceAccountCredentials.fromPkcs8(
                null, values[0], values[2].replace("\\n", "\n"), values[1], Collections.singletonList(SCOPE));
        } catch (IOException error) {
            throw new UncheckedIOException(PARTS[2] + " is not a private key in PEM", error);
        }
        if (given.get(SERVER) != null) {
            this.key = this.key.toBuilder().setTokenServerUri(URI.create(given.get(SERVER))).build();
        }
    }

    public Configuration getConf() {
        return this.conf;
    }

    public AccessTokenProvider.AccessToken getAccessToken() {
        try {
            this.key.refreshIfExpired();
        } catch (IOException error) {
            throw new UncheckedIOException("There is no token for the service account " + this.key.getClientEmail(), error);
        }
        return new AccessTokenProvider.AccessToken(
            this.key.getAccessToken().getTokenValue(), this.key.getAccessToken().getExpirationTime().toInstant());
    }

    public void refresh() throws IOException {
        this.key.refresh();
    }
}
