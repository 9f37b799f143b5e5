package brickyard;

/**
 * `saveAsTable` with mode overwrite. Spark drops the table, writes the new rows and then makes the table again: whatever stops it in
 * between would lose the old rows. So the table is dropped for the thread that does this alone, until the new description replaces
 * the old one. Compiled as NodeFiles.java is.
 */
final class Overwrites {
    private static final String WRITER = ".DataFrameWriter";
    private static final String SAVE = "saveAsTable";
    private static final String COMMAND = ".CreateDataSourceTableAsSelectCommand";
    private static final String RUN = "run";

    private final ThreadLocal begun = new ThreadLocal(); // the table's name, with its database

    /** Whether a drop is the beginning of an overwrite. */
    boolean begins(String database, String name) {
        if (!calledBy(WRITER, SAVE)) {
            return false;
        }
        this.begun.set(database + "." + name);
        return true;
    }

    /** Whether this thread writes the table's new rows: for it there is no table. */
    boolean goesOn(String database, String name) {
        if (!(database + "." + name).equals(this.begun.get())) {
            return false;
        }
        if (calledBy(COMMAND, RUN) && calledBy(WRITER, SAVE)) {
            return true;
        }
        this.begun.remove(); // it has failed: this is another statement
        return false;
    }

    void end() {
        this.begun.remove();
    }

    private static boolean calledBy(String type, String method) {
        StackTraceElement[] callers = new Throwable().getStackTrace();
        for (int index = 0; index < callers.length; index++) {
            if (callers[index].getClassName().endsWith(type) && callers[index].getMethodName().equals(method)) {
                return true;
            }
        }
        return false;
    }
}
