package brickyard;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat$;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;

/** The schema `information_schema` of the workspace's catalog: views of what the catalog `system` has. It is in no list of schemas. */
final class InformationViews {
    private static CatalogPaper paper;

    private InformationViews() {}

    static UnsupportedOperationException refused() {
        return new UnsupportedOperationException("The schema " + InformationColumns.SCHEMA + " is read-only.");
    }

    /** What a call that changes nothing answers. */
    static Object call(Method method, Object[] arguments, CatalogDatabase standard) throws Throwable {
        try {
            return method.invoke(made(standard).catalog, arguments);
        } catch (InvocationTargetException wrapped) {
            throw wrapped.getCause();
        }
    }

    private static synchronized CatalogPaper made(CatalogDatabase standard) throws Exception {
        if (paper == null) {
            Map found = new LinkedHashMap();
            found.put("", held("database", CatalogCodec.encode(standard)));
            List names = InformationColumns.names();
            for (int index = 0; index < names.size(); index++) {
                found.put(names.get(index), held("table", view((String) names.get(index))));
            }
            paper = CatalogPaper.of(InformationColumns.SCHEMA, "table", found, standard, "");
        }
        return paper;
    }

    private static Map held(String kind, Object encoded) throws Exception {
        Map tree = new LinkedHashMap();
        tree.put(kind, encoded);
        Map found = new LinkedHashMap();
        found.put("version", "");
        found.put("text", CatalogChannel.packed(tree));
        return found;
    }

    private static Object view(String name) throws Exception {
        String text = "SELECT * FROM " + InformationSchema.NAME + "." + InformationColumns.SCHEMA + "." + name;
        Map fields = new LinkedHashMap();
        fields.put("class", CatalogTable.class.getName());
        fields.put("identifier", CatalogCodec.encode(new TableIdentifier(name)));
        fields.put("tableType", CatalogCodec.encode(CatalogTableType.VIEW()));
        fields.put("storage", CatalogCodec.encode(CatalogStorageFormat$.MODULE$.empty()));
        fields.put("schema", CatalogCodec.encode(InformationColumns.schema(name)));
        fields.put("properties", CatalogCodec.kind("map", new LinkedHashMap()));
        fields.put("viewText", CatalogCodec.kind("some", text));
        fields.put("viewOriginalText", CatalogCodec.kind("some", text));
        return CatalogCodec.kind("case", fields);
    }
}
