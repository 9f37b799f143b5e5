package brickyard;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The catalog `system` of a session: information_schema, read from the session's catalog. It cannot be changed. */
public final class InformationSchema implements TableCatalog, SupportsNamespaces {
    public static final String NAME = "system";

    private final SessionState state;

    InformationSchema(SessionState state) {
        this.state = state;
    }

    public void initialize(String name, CaseInsensitiveStringMap options) {
        return;
    }

    public String name() {
        return NAME;
    }

    public String[] defaultNamespace() {
        return new String[] {InformationColumns.SCHEMA};
    }

    // --- namespaces ---

    public String[][] listNamespaces() {
        return new String[][] {{InformationColumns.SCHEMA}};
    }

    public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
        if (namespace.length == 0) {
            return listNamespaces();
        }
        loadNamespaceMetadata(namespace);
        return new String[0][];
    }

    public boolean namespaceExists(String[] namespace) {
        return InformationColumns.isSchema(namespace);
    }

    public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
        if (!namespaceExists(namespace)) {
            throw new NoSuchNamespaceException(namespace);
        }
        return Collections.singletonMap("comment", "What the workspace's metastore has");
    }

    public void createNamespace(String[] namespace, Map metadata) {
        throw refused();
    }

    public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
        throw refused();
    }

    public boolean dropNamespace(String[] namespace, boolean cascade) {
        throw refused();
    }

    // --- tables ---

    public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
        loadNamespaceMetadata(namespace);
        List names = InformationColumns.names();
        Identifier[] found = new Identifier[names.size()];
        for (int index = 0; index < found.length; index++) {
            found[index] = InformationColumns.identifier(namespace, (String) names.get(index));
        }
        return found;
    }

    public Table loadTable(Identifier name) throws NoSuchTableException {
        if (!namespaceExists(name.namespace()) || InformationColumns.schema(name.name()) == null) {
            throw new NoSuchTableException(name);
        }
        return new Rows(this.state, name.name().toLowerCase(java.util.Locale.ROOT));
    }

    public Table createTable(Identifier name, StructType schema, Transform[] partitions, Map properties) {
        throw refused();
    }

    public Table alterTable(Identifier name, TableChange[] changes) {
        throw refused();
    }

    public boolean dropTable(Identifier name) {
        throw refused();
    }

    public void renameTable(Identifier from, Identifier to) {
        throw refused();
    }

    private static UnsupportedOperationException refused() {
        return new UnsupportedOperationException("The catalog " + NAME + " is read-only.");
    }

    /** One of the tables. */
    static final class Rows implements Table, SupportsRead {
        private final SessionState state;
        private final String name;

        Rows(SessionState state, String name) {
            this.state = state;
            this.name = name;
        }

        public String name() {
            return NAME + "." + InformationColumns.SCHEMA + "." + this.name;
        }

        public StructType schema() {
            return InformationColumns.schema(this.name);
        }

        public Set capabilities() {
            return Collections.singleton(TableCapability.BATCH_READ);
        }

        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return new InformationScan(this.state, this.name);
        }
    }
}
