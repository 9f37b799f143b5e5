package brickyard;

/** Finds Databricks' USE CATALOG in SQL, alone and within scripts. Spark knows it as SET CATALOG, which has as many characters: places
 * in messages stay right. */
final class CatalogChoice {
    private static final String[] BEFORE = {"BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT"};  // a statement of a script

    private final String text;

    private CatalogChoice(String text) {
        this.text = text;
    }

    /** The text with SET in place of USE where a statement consists of USE CATALOG and a name. */
    static String translated(String text) {
        return text.length() < 11 ? text : new CatalogChoice(text).translated();
    }

    private String translated() {
        StringBuilder found = null;
        int first = after(0);
        int at = first;
        boolean begins = true;  // whether a statement begins here
        while (at < text.length()) {
            int end = word(at);
            if (begins && is(at, end, "USE") && names(end, at == first)) {
                found = found == null ? new StringBuilder(text) : found;
                found.replace(at, end, "SET");
            }
            if (end > at) {
                begins = leads(at, end);
                boolean raw = end == at + 1 && is(at, end, "R");
                end = raw && end < text.length() && "'\"".indexOf(text.charAt(end)) >= 0 ? quoted(end, false) : end;
            } else {
                begins = text.charAt(at) == ';';
                end = "'\"`".indexOf(text.charAt(at)) >= 0 ? quoted(at, true) : at + 1;
            }
            at = after(end);
        }
        return found == null ? text : found.toString();
    }

    private boolean leads(int at, int end) {
        for (String word : BEFORE) {
            if (is(at, end, word)) {
                return true;
            }
        }
        return false;
    }

    /** Whether CATALOG, a name and the statement's end follow. Within a script that is a semicolon. */
    private boolean names(int from, boolean alone) {
        int at = after(from);
        int end = word(at);
        if (at == from || !is(at, end, "CATALOG")) {
            return false;
        }
        int name = after(end);
        if (name >= text.length()) {
            return false;
        }
        int last = "'\"`".indexOf(text.charAt(name)) >= 0 ? quoted(name, true) : name(name);
        int next = after(last);
        return name > end && last > name && (next < text.length() ? text.charAt(next) == ';' : alone);
    }

    private boolean is(int at, int end, String word) {
        return end - at == word.length() && text.regionMatches(true, at, word, 0, word.length());
    }

    private int word(int at) {
        int end = at;
        while (end < text.length() && (Character.isLetterOrDigit(text.charAt(end)) || text.charAt(end) == '_')) {
            end++;
        }
        return end;
    }

    private int name(int at) {
        int end = at;
        while (end < text.length() && (word(end) > end || text.charAt(end) == '-')) {
            end++;
        }
        return end;
    }

    /** Where what begins with a quote ends. A quote twice is one of the text. */
    private int quoted(int at, boolean escapes) {
        char quote = text.charAt(at);
        int end = at + 1;
        while (end < text.length()) {
            boolean closes = text.charAt(end) == quote;
            if (closes && (end + 1 >= text.length() || text.charAt(end + 1) != quote)) {
                return end + 1;
            }
            end += closes || (escapes && quote != '`' && text.charAt(end) == '\\') ? 2 : 1;
        }
        return text.length();
    }

    /** Where what is neither a blank nor in a comment goes on. Comments between slashes may contain others. */
    private int after(int from) {
        int at = from;
        while (at < text.length()) {
            if (Character.isWhitespace(text.charAt(at))) {
                at++;
            } else if (text.startsWith("--", at)) {
                int line = text.indexOf('\n', at);
                at = line < 0 ? text.length() : line;
            } else if (text.startsWith("/*", at)) {
                at = comment(at);
            } else {
                return at;
            }
        }
        return at;
    }

    private int comment(int from) {
        int depth = 1;
        int at = from + 2;
        while (at < text.length() && depth > 0) {
            boolean opens = text.startsWith("/*", at);
            boolean closes = !opens && text.startsWith("*/", at);
            depth += opens ? 1 : closes ? -1 : 0;
            at += opens || closes ? 2 : 1;
        }
        return at;
    }
}
