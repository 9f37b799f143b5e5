package brickyard;

import java.util.regex.Pattern;

/** Statements of Databricks that Spark does not know. Its own message names a word of theirs, and says nothing of what to do. */
final class AbsentStatements {
    private static final Pattern COPY_INTO = Pattern.compile("(?is)(\\s|--[^\\n]*\\n|/\\*.*?\\*/)*COPY\\s+INTO\\s.*");

    private AbsentStatements() {}

    /** What to say of a text that Spark cannot parse, or null. */
    static String advice(String text) {
        if (!COPY_INTO.matcher(text).matches()) {
            return null;
        }
        return "COPY INTO is not part of this cluster's runtime. To load each new file exactly once, also after a failure, run a stream: "
            + "spark.readStream.schema(SCHEMA).format(\"csv\").load(PATH).writeStream.option(\"checkpointLocation\", DIRECTORY)"
            + ".trigger(availableNow=True).toTable(NAME). To load all files now: INSERT INTO NAME SELECT * FROM read_files(PATH, format => "
            + "'csv').";
    }
}
