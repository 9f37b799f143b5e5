package brickyard;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.Or;

/** Which catalogs, schemas and tables a query's filters leave, so that no others need to be read. Spark applies the filters itself. */
final class InformationFilters {
    private final Filter[] filters;

    InformationFilters(Filter[] filters) {
        this.filters = filters;
    }

    boolean catalog(String name) {
        return leaves("table_catalog", name) && leaves("catalog_name", name);
    }

    boolean schema(String name) {
        return leaves("table_schema", name) && leaves("schema_name", name);
    }

    boolean table(String name) {
        return leaves("table_name", name);
    }

    private boolean leaves(String column, String value) {
        for (int index = 0; index < this.filters.length; index++) {
            Set values = values(this.filters[index], column);
            if (values != null && !values.contains(value)) {
                return false;
            }
        }
        return true;
    }

    /** The values that a filter leaves of a column, or null if it says nothing of it. */
    private static Set values(Filter filter, String column) {
        if (filter instanceof EqualTo && ((EqualTo) filter).attribute().equals(column)) {
            return new HashSet(Arrays.asList(new Object[] {((EqualTo) filter).value()}));
        } else if (filter instanceof In && ((In) filter).attribute().equals(column)) {
            return new HashSet(Arrays.asList((Object[]) ((In) filter).values()));
        } else if (filter instanceof And) {
            Set left = values(((And) filter).left(), column);
            return left == null ? values(((And) filter).right(), column) : left;
        } else if (filter instanceof Or) {
            Set left = values(((Or) filter).left(), column);
            Set right = values(((Or) filter).right(), column);
            if (left != null && right != null) {
                left.addAll(right);
                return left;
            }
        }
        return null;
    }
}
