package brickyard;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.parser.ParserInterface;

/** Spark's parser with Databricks' USE CATALOG, which Spark knows as SET CATALOG. */
public final class CatalogParser implements InvocationHandler {
    private static final Pattern USE = Pattern.compile(
        "(?:\\s|--[^\\n]*\\n|/\\*.*?\\*/)*USE\\s+CATALOG\\s+(`(?:[^`]|``)+`|'[^']+'|\"[^\"]+\"|[\\w-]+)\\s*;?\\s*",
        Pattern.CASE_INSENSITIVE | Pattern.DOTALL);
    private static final int LONGEST = 1000; // characters: a longer text is another statement

    private final ParserInterface parser;

    private CatalogParser(ParserInterface parser) {
        this.parser = parser;
    }

    /** For SparkSessionExtensions.injectParser. */
    public static final class Maker extends scala.runtime.AbstractFunction2 {
        public Object apply(Object session, Object parser) {
            return new ParserFace(new CatalogParser((ParserInterface) parser));
        }
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        Object[] given = arguments;
        if (method.getName().startsWith("parsePlan") && ((String) arguments[0]).length() < LONGEST) {
            Matcher use = USE.matcher((String) arguments[0]);
            if (use.matches()) {
                given = (Object[]) arguments.clone();
                given[0] = "SET CATALOG " + use.group(1);
            }
        }
        try {
            return method.invoke(this.parser, given);
        } catch (InvocationTargetException error) {
            throw error.getTargetException();
        }
    }
}
