package brickyard;

import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.spark.SparkSessionCatalog;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.CatalogExtension;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;

/**
 * Spark's own catalog where a cluster has both formats: Iceberg's catalog asks Delta Lake's for what is no Iceberg table, and that asks
 * Spark's. Iceberg's does not ask it for a version of a table, and replaces a table by dropping it and making another: Delta Lake's
 * replaces it in one commit. Iceberg's takes a table's columns without their defaults, expressions and identities: those of Delta
 * tables go to Delta Lake's as they are, and an Iceberg table with such a column is refused. Delta Lake's class is found by name, since a
 * runtime gets it later. Compiled as IcebergFiles.java is, with one of the two classes IcebergOverDelta.
 */
public abstract class IcebergBeforeDelta extends SparkSessionCatalog {
    private static final String DELTA = "org.apache.spark.sql.delta.catalog.DeltaCatalog";

    protected TableCatalog delta;

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

    /** What Delta Lake's can, of what is asked of a column. Constraints of tables would not reach it. */
    public Set capabilities() {
        Set found = new HashSet();
        for (Iterator each = this.delta.capabilities().iterator(); each.hasNext();) {
            TableCatalogCapability capability = (TableCatalogCapability) each.next();
            if (capability.name().indexOf("COLUMN") >= 0) {
                found.add(capability);
            }
        }
        return found;
    }

    public Table createTable(Identifier name, Column[] columns, Transform[] partitions, Map properties)
        throws TableAlreadyExistsException, NoSuchNamespaceException {
        return isDelta(properties) ? this.delta.createTable(name, columns, partitions, properties)
            : createTable(name, plain(columns, properties), partitions, properties);
    }

    public StagedTable stageCreate(Identifier name, Column[] columns, Transform[] partitions, Map properties)
        throws TableAlreadyExistsException, NoSuchNamespaceException {
        return isDelta(properties) ? staging().stageCreate(name, columns, partitions, properties)
            : stageCreate(name, plain(columns, properties), partitions, properties);
    }

    public StagedTable stageReplace(Identifier name, Column[] columns, Transform[] partitions, Map properties)
        throws NoSuchNamespaceException, NoSuchTableException {
        return isDelta(properties) ? staging().stageReplace(name, columns, partitions, properties)
            : stageReplace(name, plain(columns, properties), partitions, properties);
    }

    public StagedTable stageCreateOrReplace(Identifier name, Column[] columns, Transform[] partitions, Map properties)
        throws NoSuchNamespaceException {
        return isDelta(properties) ? staging().stageCreateOrReplace(name, columns, partitions, properties)
            : stageCreateOrReplace(name, plain(columns, properties), partitions, properties);
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

    /** The columns as Iceberg's catalog takes them, and Spark's own. */
    private static StructType plain(Column[] columns, Map properties) {
        check(columns, properties);
        return CatalogV2Util.v2ColumnsToStructType(columns);
    }

    protected static void check(Column[] columns, Map properties) {
        String provider = (String) properties.get(TableCatalog.PROP_PROVIDER);
        boolean iceberg = provider == null || provider.equalsIgnoreCase("iceberg");
        for (int index = 0; iceberg && index < columns.length; index++) {
            Column column = columns[index];
            if (column.defaultValue() != null || column.generationExpression() != null || identity(column) != null) {
                throw new UnsupportedOperationException("Column " + column.name() + ": Iceberg tables have no DEFAULT values, no generated and "
                    + "no identity columns here");
            }
        }
    }

    private static Object identity(Column column) {
        try {
            return Column.class.getMethod("identityColumnSpec", new Class[0]).invoke(column, new Object[0]);
        } catch (NoSuchMethodException older) {
            return null; // before Spark 4
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    protected StagingTableCatalog staging() {
        return (StagingTableCatalog) this.delta;
    }

    protected static boolean isDelta(Map properties) {
        return "delta".equalsIgnoreCase((String) properties.get(TableCatalog.PROP_PROVIDER));
    }
}
