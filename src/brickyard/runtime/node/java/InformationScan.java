package brickyard;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;

/** Reads a table of information_schema in the driver, without a job. */
public final class InformationScan implements SupportsPushDownFilters, LocalScan {
    private final SessionState state;
    private final String name;
    private Filter[] filters = new Filter[0];

    InformationScan(SessionState state, String name) {
        this.state = state;
        this.name = name;
    }

    /** All remain for Spark to apply. */
    public Filter[] pushFilters(Filter[] given) {
        this.filters = given;
        return given;
    }

    public Filter[] pushedFilters() {
        return new Filter[0];
    }

    public Scan build() {
        return this;
    }

    public StructType readSchema() {
        return InformationColumns.schema(this.name);
    }

    public InternalRow[] rows() {
        return new InformationRows(this.state, new InformationFilters(this.filters), readSchema()).of(this.name);
    }
}
