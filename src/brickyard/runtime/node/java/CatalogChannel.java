package brickyard;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.Deflater;
import java.util.zip.DeflaterOutputStream;
import java.util.zip.InflaterInputStream;

/** There was no answer in time: a change may have been made, or may still be. */
final class CatalogSilence extends IOException {
    CatalogSilence(String message) {
        super(message);
    }
}

/**
 * Questions to the workspace's metastore: the node host takes them from here and brings the answers of its agent, which has the
 * files (agent/catalog/metastore.py). Compiled as NodeFiles.java is.
 */
public final class CatalogChannel {
    private static final long PATIENCE_S = 60;
    private static final List LOOKS = Arrays.asList(new Object[] {"databases", "names", "look", "abandoned"});
    private static final int MAX_PACKED = 7 << 20; // agent/catalog/metastore.py; a longer line would not arrive

    private final LinkedBlockingQueue asked = new LinkedBlockingQueue();
    private final ConcurrentHashMap waiting = new ConcurrentHashMap();
    private final AtomicLong last = new AtomicLong();

    /** For the node host: the next question, as its number, a space and JSON; null if there is none in that time. */
    public String take(long patienceMs) throws InterruptedException {
        return (String) this.asked.poll(patienceMs, TimeUnit.MILLISECONDS);
    }

    /** For the node host: the answer, as JSON. */
    public void answer(long number, String text) {
        ArrayBlockingQueue box = (ArrayBlockingQueue) this.waiting.get(Long.valueOf(number));
        if (box != null) {
            box.offer(text);
        }
    }

    Map ask(Map request) throws IOException, InterruptedException {
        Long number = Long.valueOf(this.last.incrementAndGet());
        ArrayBlockingQueue box = new ArrayBlockingQueue(1);
        this.waiting.put(number, box);
        Object text;
        try {
            this.asked.put(number + " " + new ObjectMapper().writeValueAsString(request));
            text = box.poll(PATIENCE_S, TimeUnit.SECONDS);
        } finally {
            this.waiting.remove(number);
        }
        if (text == null) {
            throw new CatalogSilence(
                "The workspace's metastore has not answered for " + PATIENCE_S + " s. A change may have been made or not: look "
                + "before you repeat it.");
        }
        Map answer = (Map) new ObjectMapper().readValue((String) text, Map.class);
        if (answer.get("error") != null) {
            String undone = LOOKS.contains(request.get("ask")) ? "The table cannot be looked up: " : "Nothing was changed: ";
            throw new IOException(undone + answer.get("error") + ".");
        }
        return answer;
    }

    /** What there is of a database (under "") and of entries in it; null: it is all `known` already. */
    Map look(String database, String kind, List names, Map known) throws IOException, InterruptedException {
        Map found = new LinkedHashMap();
        List missing = new ArrayList(names);
        do { // an answer has as many as fit into it, and always the first
            Map request = about("look", database, kind);
            request.put("names", missing);
            if (known != null) {
                request.put("known", known);
                known = null;
            }
            Map answer = ask(request);
            if (answer.get("same") != null) {
                return null;
            }
            found.putAll((Map) answer.get("found"));
            missing.removeAll(found.keySet());
        } while (!missing.isEmpty());
        return found;
    }

    static Map about(String ask, String database, String kind) {
        Map request = new LinkedHashMap();
        request.put("ask", ask);
        request.put("database", database);
        request.put("kind", kind);
        return request;
    }

    /** Writes an entry; see `sent`. */
    Map put(String database, String kind, String name, String version, Map tree) throws IOException, InterruptedException {
        Map request = about("put", database, kind);
        request.put("name", name);
        request.put("version", version);
        request.put("text", packed(tree));
        return sent(request);
    }

    /** The answer to a change, or null if it was made for what is not there any more. */
    Map sent(Map request) throws IOException, InterruptedException {
        Map answer = ask(request);
        return answer.get("conflict") == null ? answer : null;
    }

    static String packed(Object tree) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        Deflater level = new Deflater(1);
        DeflaterOutputStream stream = new DeflaterOutputStream(bytes, level);
        stream.write(new ObjectMapper().writeValueAsBytes(tree));
        stream.close();
        level.end();
        String text = Base64.getEncoder().encodeToString(bytes.toByteArray());
        if (text.length() > MAX_PACKED) {
            throw new IOException(
                "Nothing was changed: a description may have " + (MAX_PACKED >> 20) + " MiB compressed, and this one is larger. Has "
                + "the table too many partitions?");
        }
        return text;
    }

    static Map unpacked(String text) throws IOException {
        return (Map) new ObjectMapper().readValue(
            new InflaterInputStream(new ByteArrayInputStream(Base64.getDecoder().decode(text))), Map.class);
    }
}
