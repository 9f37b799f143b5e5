package brickyard;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.spark.sql.catalyst.parser.ParserInterface;

/** Spark's parser with Databricks' USE CATALOG, and with advice about statements of Databricks that Spark does not know. */
public final class CatalogParser implements InvocationHandler {
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
        if (method.getName().startsWith("parsePlan")) {
            given = (Object[]) arguments.clone();
            given[0] = CatalogChoice.translated((String) arguments[0]);
        }
        try {
            return method.invoke(this.parser, given);
        } catch (InvocationTargetException error) {
            String advice = method.getName().startsWith("parsePlan") ? AbsentStatements.advice((String) arguments[0]) : null;
            throw advice == null ? error.getTargetException() : new UnsupportedOperationException(advice, error.getTargetException());
        }
    }
}
