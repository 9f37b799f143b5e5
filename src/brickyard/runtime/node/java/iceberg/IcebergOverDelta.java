package brickyard;

import org.apache.iceberg.spark.SparkSessionCatalog;
import org.apache.spark.sql.connector.catalog.CatalogExtension;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;

/**
 * Spark's own catalog where a cluster has both formats: Iceberg's catalog asks Delta Lake's for what is no Iceberg table, and that asks
 * Spark's. Delta Lake's class is found by name, since a runtime gets it later. Compiled as IcebergFiles.java is.
 */
public final class IcebergOverDelta extends SparkSessionCatalog {
    private static final String DELTA = "org.apache.spark.sql.delta.catalog.DeltaCatalog";

    public void setDelegateCatalog(CatalogPlugin spark) {
        try {
            ClassLoader loader = Thread.currentThread().getContextClassLoader();
            CatalogExtension delta = (CatalogExtension) Class.forName(DELTA, true, loader).getDeclaredConstructor(new Class[0]).newInstance(new Object[0]);
            delta.setDelegateCatalog(spark);
            super.setDelegateCatalog(delta);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("Delta Lake's catalog cannot be made: " + error, error);
        }
    }
}
