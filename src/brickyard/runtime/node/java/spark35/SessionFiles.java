package brickyard;

import java.lang.reflect.Field;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.JobArtifactSet;
import org.apache.spark.JobArtifactState;
import org.apache.spark.SparkContext;
import scala.Option;
import scala.collection.JavaConverters;

/**
 * The files, JARs or archives of a SparkContext, by artifact state: "default" has those of the context itself, and each Spark
 * Connect session has its own.
 *
 * Spark gives a job without an artifact state the files of all of them. Execution contexts and tasks run such jobs, and so do
 * threads of Java programs: each would get what any client has added to a session, and none would run any more once two sessions
 * have files of one name. Here, whoever asks for all entries gets the context's own, and those of the session that asks.
 *
 * Compiled for each runtime (compile_classes.py) with the compiler that Spark uses for its queries (Janino), which has no generics.
 */
public final class SessionFiles extends ConcurrentHashMap {
    private static final String CONTEXT = "default"; // as in SparkContext.addFile

    private SessionFiles(Map before) {
        super(before);
    }

    /** Has the context keep its files so. Call this before it has other users. */
    public static void keepApart(SparkContext context) throws Exception {
        String[] names = {"addedFiles", "addedJars", "addedArchives"};
        for (int number = 0; number < names.length; number++) {
            Field field = SparkContext.class.getDeclaredField(names[number]);
            field.setAccessible(true);
            Map before = (Map) JavaConverters.mapAsJavaConcurrentMap((scala.collection.concurrent.Map) field.get(context));
            field.set(context, JavaConverters.mapAsScalaConcurrentMap(new SessionFiles(before)));
        }
    }

    /** What Scala's `values` reads. */
    public Set entrySet() {
        Set found = Collections.newSetFromMap(new IdentityHashMap());
        Option state = JobArtifactSet.getCurrentJobArtifactState();
        for (Iterator entries = super.entrySet().iterator(); entries.hasNext();) {
            Map.Entry entry = (Map.Entry) entries.next();
            boolean own = state.isDefined() && ((JobArtifactState) state.get()).uuid().equals(entry.getKey());
            if (own || CONTEXT.equals(entry.getKey())) {
                found.add(entry);
            }
        }
        return found;
    }
}
