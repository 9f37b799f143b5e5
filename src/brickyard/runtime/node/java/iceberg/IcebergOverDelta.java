package brickyard;

import java.util.Map;
import org.apache.iceberg.spark.SparkSessionCatalog;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.CatalogExtension;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;

/**
 * Spark's own catalog where a cluster has both formats: Iceberg's catalog asks Delta Lake's for what is no Iceberg table, and that asks
 * Spark's. Iceberg's does not ask it for a version of a table, and replaces a table by dropping it and making another: Delta Lake's
 * replaces it in one commit. Delta Lake's class is found by name, since a runtime gets it later. Compiled as IcebergFiles.java is.
 */
public final class IcebergOverDelta extends SparkSessionCatalog {
    private static final String DELTA = "org.apache.spark.sql.delta.catalog.DeltaCatalog";

    private TableCatalog delta;

    public void setDelegateCatalog(CatalogPlugin spark) {
        try {
            ClassLoader loader = Thread.currentThread().getContextClassLoader();
            CatalogExtension delta = (CatalogExtension) Class.forName(DELTA, true, loader).getDeclaredConstructor(new Class[0]).newInstance(new Object[0]);
            delta.setDelegateCatalog(spark);
            this.delta = (TableCatalog) delta;
            super.setDelegateCatalog(delta);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("Delta Lake's catalog cannot be made: " + error, error);
        }
    }

    public Table loadTable(Identifier name, String version) throws NoSuchTableException {
        try {
            return super.loadTable(name, version);
        } catch (NoSuchTableException none) {
            return this.delta.loadTable(name, version);
        }
    }

    public Table loadTable(Identifier name, long timestamp) throws NoSuchTableException {
        try {
            return super.loadTable(name, timestamp);
        } catch (NoSuchTableException none) {
            return this.delta.loadTable(name, timestamp);
        }
    }

    public StagedTable stageCreate(Identifier name, StructType schema, Transform[] partitions, Map properties)
        throws TableAlreadyExistsException, NoSuchNamespaceException {
        return isDelta(properties) ? staging().stageCreate(name, schema, partitions, properties)
            : super.stageCreate(name, schema, partitions, properties);
    }

    public StagedTable stageReplace(Identifier name, StructType schema, Transform[] partitions, Map properties)
        throws NoSuchNamespaceException, NoSuchTableException {
        return isDelta(properties) ? staging().stageReplace(name, schema, partitions, properties)
            : super.stageReplace(name, schema, partitions, properties);
    }

    public StagedTable stageCreateOrReplace(Identifier name, StructType schema, Transform[] partitions, Map properties)
        throws NoSuchNamespaceException {
        return isDelta(properties) ? staging().stageCreateOrReplace(name, schema, partitions, properties)
            : super.stageCreateOrReplace(name, schema, partitions, properties);
    }

    private StagingTableCatalog staging() {
        return (StagingTableCatalog) this.delta;
    }

    private static boolean isDelta(Map properties) {
        return "delta".equalsIgnoreCase((String) properties.get(TableCatalog.PROP_PROVIDER));
    }
}
