package brickyard;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Fills the tables of information_schema from a session's catalog. Which schemas and tables are wanted is a hint. */
final class InformationRows {
    private static final String CATALOG = "main"; // Databricks' information_schema has nothing of hive_metastore, the same one here
    private static final String CHAR = "__CHAR_VARCHAR_TYPE_STRING"; // Spark keeps the type of such a column beside it
    private static final String DEFAULT = "CURRENT_DEFAULT";

    private final SessionState state;
    private final ExternalCatalog catalog;
    private final InformationFilters filters;
    private final StructType schema;
    private final List rows = new ArrayList();

    InformationRows(SessionState state, InformationFilters filters, StructType schema) {
        this.state = state;
        this.catalog = state.catalog().externalCatalog();
        this.filters = filters;
        this.schema = schema;
    }

    InternalRow[] of(String name) {
        if (name.equals("information_schema_catalog_name") || name.equals("catalogs")) {
            add(new Object[] {"catalog_name", CATALOG});
        } else if (this.filters.catalog(CATALOG)) {
            boolean known = name.equals("schemata") || name.equals("tables") || name.equals("views") || name.equals("columns")
                || name.equals("routines");
            scala.collection.Iterator each = known ? this.catalog.listDatabases().iterator() : null;
            while (known && each.hasNext()) {
                String database = (String) each.next();
                if (this.filters.schema(database)) {
                    fill(name, database);
                }
            }
        }
        return (InternalRow[]) this.rows.toArray(new InternalRow[this.rows.size()]);
    }

    private void fill(String name, String database) {
        try {
            if (name.equals("schemata")) {
                CatalogDatabase found = this.catalog.getDatabase(database);
                scala.Option owner = found.properties().get("owner");
                add(new Object[] {
                    "catalog_name", CATALOG, "schema_name", database, "schema_owner", owner.isDefined() ? owner.get() : null,
                    "comment", found.description()});
                return;
            } else if (name.equals("routines")) {
                scala.collection.Iterator each = this.catalog.listFunctions(database, "*").iterator();
                while (each.hasNext()) {
                    Object function = each.next();
                    add(new Object[] {
                        "specific_catalog", CATALOG, "specific_schema", database, "specific_name", function, "routine_catalog", CATALOG,
                        "routine_schema", database, "routine_name", function, "routine_type", "FUNCTION"});
                }
                return;
            }
        } catch (Exception gone) { // dropped meanwhile
            return;
        }
        for (java.util.Iterator each = tables(database).iterator(); each.hasNext();) {
            CatalogTable table = (CatalogTable) each.next();
            if (name.equals("tables")) {
                addTable(table);
            } else if (name.equals("views")) {
                addView(table);
            } else {
                addColumns(table);
            }
        }
    }

    /** What this version of Spark can read, asked for together. */
    private List tables(String database) {
        List found = new ArrayList();
        List names = new ArrayList();
        try {
            for (scala.collection.Iterator each = this.catalog.listTables(database).iterator(); each.hasNext();) {
                Object name = each.next();
                if (this.filters.table((String) name)) {
                    names.add(name);
                }
            }
            addAll(found, database, names);
        } catch (Exception unreadable) {
            found.clear();
            for (int index = 0; index < names.size(); index++) {
                try {
                    addAll(found, database, names.subList(index, index + 1));
                } catch (Exception one) {
                    continue;
                }
            }
        }
        return found;
    }

    private void addAll(List found, String database, List names) throws Exception {
        if (names.isEmpty()) {
            return;
        }
        scala.collection.immutable.List wanted = (scala.collection.immutable.List) CatalogCodec.decodeAll(names);
        scala.collection.Iterator each = this.catalog.getTablesByName(database, wanted).iterator();
        while (each.hasNext()) {
            found.add(each.next());
        }
    }

    private void addTable(CatalogTable table) {
        boolean view = isView(table);
        boolean managed = table.tableType().equals(CatalogTableType.MANAGED())
            || table.properties().contains(CatalogPaper.MANAGED);
        add(new Object[] {
            "table_catalog", CATALOG, "table_schema", table.database(), "table_name", table.identifier().table(),
            "table_type", view ? "VIEW" : managed ? "MANAGED" : "EXTERNAL", "is_insertable_into", view ? "NO" : "YES",
            "commit_action", "PRESERVE", "table_owner", text(table.owner()), "comment", option(table.comment()),
            "created", Long.valueOf(table.createTime() * 1000L), "created_by", text(table.owner()),
            "data_source_format", view ? null : upper(option(table.provider())),
            "storage_path", view ? null : option(table.storage().locationUri())});
    }

    private void addView(CatalogTable table) {
        if (isView(table)) {
            add(new Object[] {
                "table_catalog", CATALOG, "table_schema", table.database(), "table_name", table.identifier().table(),
                "view_definition", option(table.viewText()), "check_option", "NONE", "is_updatable", "NO", "is_insertable_into", "NO",
                "is_materialized", "NO"});
        }
    }

    private void addColumns(CatalogTable table) {
        StructField[] fields = schemaOf(table).fields();
        List partitions = new ArrayList();
        for (scala.collection.Iterator each = table.partitionColumnNames().iterator(); each.hasNext();) {
            partitions.add(each.next());
        }
        for (int index = 0; index < fields.length; index++) {
            StructField field = fields[index];
            DataType type = field.dataType();
            String kept = field.metadata().contains(CHAR) ? field.metadata().getString(CHAR) : null;
            String full = kept == null ? type.catalogString() : kept;
            boolean decimal = type instanceof DecimalType;
            int partition = partitions.indexOf(field.name());
            add(new Object[] {
                "table_catalog", CATALOG, "table_schema", table.database(), "table_name", table.identifier().table(),
                "column_name", field.name(), "ordinal_position", Integer.valueOf(index),
                "column_default", field.metadata().contains(DEFAULT) ? field.metadata().getString(DEFAULT) : null,
                "is_nullable", field.nullable() ? "YES" : "NO", "full_data_type", full,
                "data_type", full.startsWith("char(") ? "CHAR" : upper(type.typeName().split("[( ]")[0]),
                "character_maximum_length", kept == null ? null : Long.valueOf(kept.replaceAll("\\D", "")),
                "numeric_precision", decimal ? Integer.valueOf(((DecimalType) type).precision()) : null,
                "numeric_precision_radix", decimal ? Integer.valueOf(10) : null,
                "numeric_scale", decimal ? Integer.valueOf(((DecimalType) type).scale()) : null, "is_identity", "NO",
                "is_generated", "NO", "is_updatable", isView(table) ? "NO" : "YES",
                "partition_ordinal_position", partition < 0 ? null : Integer.valueOf(partition),
                "comment", option(field.getComment())});
        }
    }

    /** Some formats keep a table's columns with its files: the session's catalog reads them there. */
    private StructType schemaOf(CatalogTable table) {
        if (table.schema().fields().length == 0 && !isView(table)) {
            try {
                TableCatalog all = (TableCatalog) this.state.catalogManager().v2SessionCatalog();
                return all.loadTable(InformationColumns.identifier(new String[] {table.database()}, table.identifier().table())).schema();
            } catch (Exception unreadable) { // without its files or its format, its columns are unknown
                return table.schema();
            }
        }
        return table.schema();
    }

    private static boolean isView(CatalogTable table) {
        return table.tableType().equals(CatalogTableType.VIEW());
    }

    private static String text(String given) {
        return given == null || given.isEmpty() ? null : given;
    }

    private static String upper(String given) {
        return given == null ? null : given.toUpperCase(Locale.ROOT);
    }

    private static String option(scala.Option given) {
        return given.isDefined() ? given.get().toString() : null;
    }

    /** A row of names and values; the other columns are null. */
    private void add(Object[] given) {
        Object[] values = new Object[this.schema.fields().length];
        for (int index = 0; index < given.length; index += 2) {
            Object value = given[index + 1];
            values[this.schema.fieldIndex((String) given[index])] = value instanceof String ? UTF8String.fromString((String) value) : value;
        }
        this.rows.add(new GenericInternalRow(values));
    }
}
