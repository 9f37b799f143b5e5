package brickyard;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.spark.sql.catalyst.parser.ParserInterface;

/** Spark's parser where users are kept apart: has everything that it has parsed inspected, before Spark acts on any of it. */
public final class ApartParser implements InvocationHandler {
    private final ParserInterface parser;

    private ApartParser(ParserInterface parser) {
        this.parser = parser;
    }

    public static ParserInterface over(ParserInterface parser) {
        return new ParserFace(new ApartParser(parser));
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        Object found;
        try {
            found = method.invoke(this.parser, arguments);
        } catch (InvocationTargetException error) {
            throw error.getTargetException();
        }
        Apart.inspect(found);
        return found;
    }
}
