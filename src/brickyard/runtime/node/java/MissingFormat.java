package brickyard;

import org.apache.spark.SparkContext;

/**
 * A format of tables that the runtime lacks. Spark looks for a class called FORMAT.DefaultSource when no jar offers the format, and
 * makes one: this says what to do (the classes are made by compile_classes.py). Compiled as NodeFiles.java is.
 */
public class MissingFormat {
    private static final String LOADER =
        "Auto Loader (cloudFiles) is not part of this cluster's runtime. A stream of files reads each new file exactly once, also after a "
        + "failure: put the value of cloudFiles.format in the place of cloudFiles, such as format(\"json\"), give the columns by "
        + "schema(...), and leave out the options that begin with cloudFiles.";

    protected MissingFormat(String format) {
        throw new UnsupportedOperationException(format.equalsIgnoreCase("cloudFiles") ? LOADER
            : "The format " + format + " is not part of this cluster's runtime. Use USING PARQUET (the default), ORC, CSV or JSON; or have "
            + "the cluster's spark_conf name the format's jars, extensions and catalog, as its documentation says (spark.jars.packages, "
            + "spark.sql.extensions, spark.sql.catalog.NAME)." + delta(format) + iceberg(format));
    }

    private static String delta(String format) {
        return !format.equalsIgnoreCase("delta") ? "" : " A machine installs Delta Lake after the runtime, in the background: run `brickyard "
            + "runtime list`, which says where it is missing and why, and restart the cluster once it is there (docs/packages.md has the "
            + "runtimes that it suits).";
    }

    private static String iceberg(String format) {
        if (!format.equalsIgnoreCase("iceberg")) {
            return "";
        }
        // Not SparkEnv: that of Spark 4.3 names classes which its wheel lacks, so nothing compiles that calls it.
        scala.Option active = org.apache.spark.SparkContext$.MODULE$.getActive();
        String why = active.isEmpty() ? "" : ((SparkContext) active.get()).conf().get("spark.brickyard.missing.iceberg", "");
        return " Runtimes that have it as a layer (docs/packages.md) load it where spark_conf has spark.brickyard.layers delta,iceberg."
            + " A runtime of Spark 3.5 (16.4.x-scala2.12) has Iceberg if a Maven repository could be reached when it was installed"
            + (why.isEmpty() ? "" : "; when this one was, " + why) + ". To try again: brickyard runtime remove, and install.";
    }
}
