package brickyard;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.types.StructType;

/** The tables of information_schema with their columns, as Databricks documents them [Databricks, "Information schema"]. */
public final class InformationColumns {
    public static final String SCHEMA = "information_schema";
    private static final String MADE = "created timestamp, created_by string, last_altered timestamp, last_altered_by string";
    private static final String TABLE = "table_catalog string, table_schema string, table_name string";
    private static final String CONSTRAINT = "constraint_catalog string, constraint_schema string, constraint_name string";
    private static final String GRANT = "privilege_type string, is_grantable string, inherited_from string";
    private static final String TAG = "tag_name string, tag_value string";
    private static final Map TABLES = new LinkedHashMap(); // name -> StructType

    static {
        add("information_schema_catalog_name", "catalog_name string");
        add("catalogs", "catalog_name string, catalog_owner string, comment string, " + MADE);
        add("schemata", "catalog_name string, schema_name string, schema_owner string, comment string, " + MADE);
        add("tables", TABLE + ", table_type string, is_insertable_into string, commit_action string, table_owner string, "
            + "comment string, " + MADE + ", data_source_format string, storage_sub_directory string, storage_path string");
        add("views", TABLE + ", view_definition string, check_option string, is_updatable string, is_insertable_into string, "
            + "sql_path string, is_materialized string");
        add("columns", TABLE + ", column_name string, ordinal_position int, column_default string, is_nullable string, "
            + "full_data_type string, data_type string, character_maximum_length bigint, character_octet_length bigint, "
            + "numeric_precision int, numeric_precision_radix int, numeric_scale int, datetime_precision int, interval_type string, "
            + "interval_precision int, maximum_cardinality bigint, is_identity string, identity_generation string, "
            + "identity_start string, identity_increment string, identity_maximum string, identity_minimum string, "
            + "identity_cycle string, is_generated string, generation_expression string, is_system_time_period_start string, "
            + "is_system_time_period_end string, system_time_period_timestamp_generation string, is_updatable string, "
            + "partition_ordinal_position int, comment string");
        add("routines", "specific_catalog string, specific_schema string, specific_name string, routine_catalog string, "
            + "routine_schema string, routine_name string, routine_type string, data_type string, routine_body string, "
            + "routine_definition string, comment string");
        add("parameters", "specific_catalog string, specific_schema string, specific_name string, ordinal_position int, "
            + "parameter_mode string, parameter_name string, data_type string, full_data_type string, parameter_default string, "
            + "comment string"); // of procedures, which Spark has none of
        // Spark has no constraints, tags, masks and grants of its own: there are no rows.
        add("table_constraints", CONSTRAINT + ", " + TABLE + ", constraint_type string, is_deferrable string, "
            + "initially_deferred string, enforced string, comment string");
        add("key_column_usage", CONSTRAINT + ", " + TABLE + ", column_name string, ordinal_position int, "
            + "position_in_unique_constraint int");
        add("referential_constraints", CONSTRAINT + ", unique_constraint_catalog string, unique_constraint_schema string, "
            + "unique_constraint_name string, match_option string, update_rule string, delete_rule string");
        add("constraint_table_usage", CONSTRAINT + ", " + TABLE);
        add("constraint_column_usage", CONSTRAINT + ", " + TABLE + ", column_name string");
        add("check_constraints", CONSTRAINT + ", check_clause string, sql_path string");
        add("catalog_privileges", "grantor string, grantee string, catalog_name string, " + GRANT);
        add("schema_privileges", "grantor string, grantee string, catalog_name string, schema_name string, " + GRANT);
        add("table_privileges", "grantor string, grantee string, " + TABLE + ", " + GRANT);
        add("catalog_tags", "catalog_name string, " + TAG);
        add("schema_tags", "catalog_name string, schema_name string, " + TAG);
        add("table_tags", "catalog_name string, schema_name string, table_name string, " + TAG);
        add("column_tags", "catalog_name string, schema_name string, table_name string, column_name string, " + TAG);
        add("column_masks", TABLE + ", column_name string, mask_name string, using_columns string");
        add("row_filters", TABLE + ", filter_name string, target_columns string");
    }

    private InformationColumns() {}

    private static void add(String name, String columns) {
        StructType schema = new StructType();
        String[] each = columns.split(", ");
        for (int index = 0; index < each.length; index++) {
            String[] parts = each[index].split(" ");
            schema = schema.add(parts[0], parts[1]);
        }
        TABLES.put(name, schema);
    }

    /** Their names. */
    static List names() {
        return new ArrayList(TABLES.keySet());
    }

    /** The columns of one, or null if there is none of that name. */
    static StructType schema(String name) {
        return (StructType) TABLES.get(name.toLowerCase(java.util.Locale.ROOT));
    }

    /** Identifier.of, which Janino does not compile: a static method of an interface. */
    static Identifier identifier(String[] namespace, String name) {
        try {
            return (Identifier) Identifier.class.getMethod("of", new Class[] {String[].class, String.class})
                .invoke(null, new Object[] {namespace, name});
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    static boolean isSchema(String[] namespace) {
        return Arrays.equals(new String[] {SCHEMA}, lower(namespace));
    }

    private static String[] lower(String[] names) {
        String[] found = (String[]) names.clone();
        for (int index = 0; index < found.length; index++) {
            found[index] = found[index].toLowerCase(java.util.Locale.ROOT);
        }
        return found;
    }
}
