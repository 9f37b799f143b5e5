package brickyard;

import org.apache.spark.MapOutputTrackerMaster;
import org.apache.spark.ShuffleStatus;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.storage.BlockManagerId;

/**
 * Counts the shuffle outputs that an executor holds. Spark's driver knows the place of each but offers no sum, and from Python each
 * output would take three calls.
 *
 * Compiled where it is used (spark/driver.py) with the compiler that Spark uses for its queries (Janino), which has no generics.
 */
public final class ShuffleOutputs {
    public long on(MapOutputTrackerMaster tracker, String executorId) {
        long found = 0;
        scala.collection.Iterator shuffles = tracker.shuffleStatuses().valuesIterator();
        while (shuffles.hasNext()) {
            MapStatus[] outputs = ((ShuffleStatus) shuffles.next()).mapStatuses();
            for (int each = 0; each < outputs.length; each++) {
                MapStatus output = outputs[each];  // null: not written yet, or lost
                BlockManagerId home = output == null ? null : output.location();
                if (home != null && executorId.equals(home.executorId())) {
                    found++;
                }
            }
        }
        return found;
    }
}
