package brickyard;

import java.io.IOException;
import java.net.URL;
import java.util.Collections;
import java.util.Enumeration;
import java.util.Vector;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry$;
import scala.Function1;
import scala.Option;

/**
 * Spark's internal functions for machine learning, made when one of them is first used. Spark makes them with the first session, through a
 * service of its library for machine learning, and asks Scala's reflection for their types, for which a JVM that has just started needs
 * most of a second of processor time. This class loader finds all services of sessions but that one. Compiled as NodeFiles.java is.
 */
public final class LateFunctions extends ClassLoader {
    private static final String SERVICES = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider";
    private static final String LIBRARY = "/spark-mllib_";
    private static final String REAL = "org.apache.spark.sql.ml.InternalFunctionRegistration$";
    private static final String[] NAMES = new String[] {"vector_to_array", "array_to_vector", "aggregate_metrics"};

    private LateFunctions(ClassLoader parent) {
        super(parent);
    }

    /** The class loader with which to make the first session. */
    public static ClassLoader over(ClassLoader parent) {
        for (int index = 0; index < NAMES.length; index++) {
            if (builder(NAMES[index]).isEmpty()) {
                FunctionRegistry$.MODULE$.internal().registerFunction(
                    new FunctionIdentifier(NAMES[index]), new Late(NAMES[index]), "internal");
            }
        }
        return new LateFunctions(parent);
    }

    public Enumeration getResources(String name) throws IOException {
        Enumeration all = super.getResources(name);
        if (!SERVICES.equals(name)) {
            return all;
        }
        Vector others = new Vector();
        while (all.hasMoreElements()) {
            URL each = (URL) all.nextElement();
            if (each.toString().indexOf(LIBRARY) < 0) {
                others.add(each);
            }
        }
        return Collections.enumeration(others);
    }

    private static Option builder(String name) {
        return FunctionRegistry$.MODULE$.internal().lookupFunctionBuilder(new FunctionIdentifier(name));
    }

    /** Has Spark register its functions, and is the one of that name from then on. */
    private static final class Late extends scala.runtime.AbstractFunction1 {
        private final String name;

        Late(String name) {
            this.name = name;
        }

        public Object apply(Object arguments) {
            try {
                Class.forName(REAL); // registers them, once
            } catch (ClassNotFoundException error) {
                throw new IllegalStateException("Spark's library for machine learning is not there", error);
            }
            Function1 real = (Function1) builder(this.name).get();
            if (real == this) {
                throw new IllegalStateException("Spark's library for machine learning has no function " + this.name);
            }
            return real.apply(arguments);
        }
    }
}
