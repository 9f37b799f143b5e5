package brickyard;

import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableInfo;

/** From Spark 4.1 on, which asks for a table by a TableInfo. */
public final class IcebergOverDelta extends IcebergBeforeDelta {
    public Table createTable(Identifier name, TableInfo table) throws TableAlreadyExistsException, NoSuchNamespaceException {
        if (isDelta(table.properties())) {
            return this.delta.createTable(name, table);
        }
        check(table.columns(), table.properties());
        return super.createTable(name, table);
    }

    public StagedTable stageCreate(Identifier name, TableInfo table) throws TableAlreadyExistsException, NoSuchNamespaceException {
        if (isDelta(table.properties())) {
            return staging().stageCreate(name, table);
        }
        check(table.columns(), table.properties());
        return super.stageCreate(name, table);
    }

    public StagedTable stageReplace(Identifier name, TableInfo table) throws NoSuchNamespaceException, NoSuchTableException {
        if (isDelta(table.properties())) {
            return staging().stageReplace(name, table);
        }
        check(table.columns(), table.properties());
        return super.stageReplace(name, table);
    }

    public StagedTable stageCreateOrReplace(Identifier name, TableInfo table) throws NoSuchNamespaceException {
        if (isDelta(table.properties())) {
            return staging().stageCreateOrReplace(name, table);
        }
        check(table.columns(), table.properties());
        return super.stageCreateOrReplace(name, table);
    }
}
