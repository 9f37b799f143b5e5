package brickyard;

import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.math.BigInteger;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.types.DataType;

/**
 * Spark's descriptions as JSON and back. A description is a case class: its fields go by name, and one that another version of
 * Spark does not know, or did not write, is left out, or has its default. Other values are a list of a word for the kind and the
 * value. Compiled as NodeFiles.java is.
 */
final class CatalogCodec {
    private static final String CATALYST = "org.apache.spark.sql.catalyst.";
    private static final String BIN = CATALYST + "plans.logical.HistogramBin";
    private static final List IDENTIFIERS = Arrays.asList(new Object[] {"TableIdentifier", "FunctionIdentifier"});

    static Object encode(Object value) throws Exception {
        if (value == null || value instanceof String || value instanceof Boolean) {
            return value;
        } else if (value instanceof Double) {
            return kind("double", value.toString());
        } else if (value instanceof Object[]) {
            List found = new ArrayList();
            for (int index = 0; index < ((Object[]) value).length; index++) {
                found.add(encode(((Object[]) value)[index]));
            }
            return kind("bins", found);
        } else if (value instanceof Number) {
            return kind(value instanceof Integer ? "int" : value instanceof Long ? "long" : "big", value.toString());
        } else if (value instanceof URI) {
            return kind("uri", value.toString());
        } else if (value instanceof DataType) {
            return kind("type", ((DataType) value).json());
        } else if (value instanceof scala.Option) {
            scala.Option option = (scala.Option) value;
            return option.isEmpty() ? kind("none", null) : kind("some", encode(option.get()));
        } else if (value instanceof scala.collection.Map) {
            return kind("map", entries((scala.collection.Map) value));
        } else if (value instanceof scala.collection.Seq) {
            return kind("seq", items(((scala.collection.Seq) value).iterator()));
        } else if (value.getClass().getName().endsWith("$")) {
            return kind("object", value.getClass().getName());
        }
        return kind("case", fields(value));
    }

    static List kind(String name, Object value) {
        List pair = new ArrayList();
        pair.add(name);
        pair.add(value);
        return pair;
    }

    private static Map entries(scala.collection.Map values) throws Exception {
        Map found = new LinkedHashMap();
        for (scala.collection.Iterator each = values.iterator(); each.hasNext();) {
            scala.Tuple2 pair = (scala.Tuple2) each.next();
            found.put((String) pair._1(), encode(pair._2()));
        }
        return found;
    }

    private static List items(scala.collection.Iterator each) throws Exception {
        List found = new ArrayList();
        while (each.hasNext()) {
            found.add(encode(each.next()));
        }
        return found;
    }

    private static Map fields(Object value) throws Exception {
        Map found = new LinkedHashMap();
        List names = parameters(value.getClass());
        for (int index = 0; index < names.size(); index++) {
            Field field = (Field) names.get(index);
            field.setAccessible(true);
            found.put(field.getName(), encode(field.get(value)));
        }
        found.put("class", value.getClass().getName());
        return found;
    }

    static Object decode(Object given) throws Exception {
        if (!(given instanceof List)) {
            return given;
        }
        String kind = (String) ((List) given).get(0);
        Object value = ((List) given).get(1);
        if (kind.equals("int")) {
            return Integer.valueOf((String) value);
        } else if (kind.equals("long")) {
            return Long.valueOf((String) value);
        } else if (kind.equals("big")) {
            return new scala.math.BigInt(new BigInteger((String) value));
        } else if (kind.equals("double")) {
            return Double.valueOf((String) value);
        } else if (kind.equals("bins")) { // of a histogram, the only array in a description
            Object[] found = (Object[]) Array.newInstance(find(BIN), ((List) value).size());
            for (int index = 0; index < found.length; index++) {
                found[index] = decode(((List) value).get(index));
            }
            return found;
        } else if (kind.equals("uri")) {
            return new URI((String) value);
        } else if (kind.equals("type")) {
            return DataType.fromJson((String) value);
        } else if (kind.equals("none")) {
            return scala.Option.empty();
        } else if (kind.equals("some")) {
            return scala.Option.apply(decode(value));
        } else if (kind.equals("seq")) {
            return decodeAll((List) value);
        } else if (kind.equals("map")) {
            return decodeMap((Map) value);
        } else if (kind.equals("object")) {
            return companion(described((String) value));
        }
        return make((Map) value);
    }

    static Object decodeAll(List values) throws Exception {
        scala.collection.immutable.List found = (scala.collection.immutable.List) companion("scala.collection.immutable.Nil$");
        for (int index = values.size() - 1; index >= 0; index--) {
            found = found.$colon$colon(decode(values.get(index)));
        }
        return found;
    }

    private static Object decodeMap(Map values) throws Exception {
        Object found = scala.collection.immutable.Map$.MODULE$.empty();
        for (java.util.Iterator each = values.entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            scala.Tuple2 pair = new scala.Tuple2(entry.getKey(), decode(entry.getValue()));
            found = ((scala.collection.immutable.Map) found).$plus(pair);
        }
        return found;
    }

    private static Object make(Map values) throws Exception {
        String name = (String) values.get("class");
        Class type = find(described(name));
        List fields = parameters(type);
        Object[] given = new Object[fields.size()];
        for (int index = 0; index < given.length; index++) {
            String field = ((Field) fields.get(index)).getName();
            given[index] = values.containsKey(field) ? decode(values.get(field)) : standard(name, index + 1);
        }
        Constructor constructor = constructor(type);
        constructor.setAccessible(true);
        return constructor.newInstance(given);
    }

    /** What a parameter is when it is not given. */
    private static Object standard(String name, int number) throws Exception {
        Object companion = companion(name + "$");
        return companion.getClass().getMethod("apply$default$" + number, new Class[0]).invoke(companion, new Object[0]);
    }

    private static Object companion(String name) throws Exception {
        return find(name).getField("MODULE$").get(null);
    }

    /** Descriptions come from other clusters: no class is loaded because of one, except for those that describe. */
    private static String described(String name) {
        String rest = name.startsWith(CATALYST) ? name.substring(CATALYST.length()) : "";
        if (!rest.startsWith("catalog.") && !IDENTIFIERS.contains(rest) && !rest.startsWith("plans.logical.Histogram")) {
            throw new IllegalArgumentException(name + " is not a class of Spark's catalog");
        }
        return name;
    }

    private static Class find(String name) throws Exception {
        return Class.forName(name, true, CatalogTable.class.getClassLoader());
    }

    private static Constructor constructor(Class type) {
        Constructor[] all = type.getDeclaredConstructors();
        Constructor longest = all[0];
        for (int index = 1; index < all.length; index++) {
            longest = all[index].getParameterTypes().length > longest.getParameterTypes().length ? all[index] : longest;
        }
        return longest;
    }

    /** The fields that hold a case class's parameters, in their order: others that it may have do not match their types. */
    private static List parameters(Class type) {
        Class[] wanted = constructor(type).getParameterTypes();
        Field[] all = type.getDeclaredFields();
        List found = new ArrayList();
        for (int index = 0; index < all.length && found.size() < wanted.length; index++) {
            boolean plain = !Modifier.isStatic(all[index].getModifiers());
            if (plain && all[index].getType() == wanted[found.size()]) {
                found.add(all[index]);
            }
        }
        if (found.size() != wanted.length) {
            throw new IllegalStateException(type.getName() + " has parameters that are not fields");
        }
        return found;
    }
}
