package brickyard;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase;

/**
 * The tables of a cluster from the time before the workspace had a metastore, one file a database: moves them there, once, with
 * copies of their rows. Where another cluster has moved a table of that name, the cluster's id is added to it. The files stay,
 * under another name, and so do the rows, until the cluster is deleted. Compiled as NodeFiles.java is.
 */
final class ClusterTables {
    private static final String SUFFIX = ".json";
    private static final String MOVES = "moves"; // directories that a killed driver was about to move
    private static final String ORIGIN = "origin"; // in a description: where it was

    private final CatalogChannel channel;
    private final Configuration conf;
    private final File directory;
    private final String cluster;
    private final CatalogDatabase standard;

    ClusterTables(CatalogChannel channel, Configuration conf, File directory, String cluster, CatalogDatabase standard) {
        this.channel = channel;
        this.conf = conf;
        this.directory = directory;
        this.cluster = cluster;
        this.standard = standard;
    }

    /** Returns what could not be moved. The next driver tries that again. */
    List moveIn() {
        List failed = new ArrayList();
        File[] files = this.directory.listFiles();
        if (files == null) {
            return failed;
        }
        Arrays.sort(files);
        try {
            putBack(new File(this.directory, MOVES), files);
        } catch (Exception error) {
            failed.add(MOVES + ": " + error);
        }
        for (int index = 0; index < files.length; index++) {
            if (files[index].getName().endsWith(SUFFIX)) {
                int before = failed.size();
                try {
                    moveDatabase((Map) new ObjectMapper().readValue(files[index], Map.class), failed);
                } catch (Exception error) {
                    failed.add(files[index].getName() + ": " + error);
                }
                if (failed.size() == before) {
                    files[index].renameTo(new File(files[index].getPath() + ".moved"));
                }
            }
        }
        return failed;
    }

    private void moveDatabase(Map whole, List failed) throws Exception {
        List database = (List) whole.get("database");
        Map fields = (Map) database.get(1);
        String name = (String) fields.get("name");
        if (!name.equals(this.standard.name())) {
            Path place = new Path(new Path(this.standard.locationUri()), name + ".db");
            place.getFileSystem(this.conf).mkdirs(place);
            fields.put("locationUri", CatalogCodec.kind("uri", place.toUri().toString()));
            Map tree = new LinkedHashMap();
            tree.put("database", database);
            this.channel.put(name, "table", "", "", tree); // or there is one, and gets the tables
        }
        move(name, "table", (List) whole.get("tables"), failed);
        move(name, "function", (List) whole.get("functions"), failed);
    }

    private void move(String database, String kind, List entries, List failed) {
        for (int index = 0; index < entries.size(); index++) {
            Map tree = new LinkedHashMap();
            if (kind.equals("table")) {
                tree = (Map) entries.get(index);
            } else {
                tree.put(kind, entries.get(index));
            }
            try {
                move(database, kind, tree);
            } catch (Exception error) {
                failed.add(database + ": " + tree.get(kind) + ": " + error);
            }
        }
    }

    private void move(String database, String kind, Map tree) throws Exception {
        Map identifier = (Map) ((List) ((Map) ((List) tree.get(kind)).get(1)).get("identifier")).get(1);
        String name = (String) identifier.get(kind.equals("table") ? "table" : "funcName");
        String origin = this.cluster + "/" + database + "/" + name;
        tree.put(ORIGIN, origin);
        String[] names = new String[] {name, name + "_" + this.cluster.replace("-", "_")};
        for (int index = 0; index < names.length; index++) {
            Map held = held(database, kind, names[index]);
            if (held != null && origin.equals(held.get(ORIGIN))) {
                return; // a driver that was killed later has moved it
            }
            if (held == null) {
                Map moved = kind.equals("table") ? withRows(database, name, tree) : tree;
                if (this.channel.put(database, kind, names[index], "", moved) != null) {
                    return;
                }
            }
        }
        throw new IOException("there are a " + names[0] + " and a " + names[1] + " already");
    }

    private Map held(String database, String kind, String name) throws Exception {
        Map found = (Map) this.channel.look(database, kind, Arrays.asList(new String[] {name}), null).get(name);
        return found == null ? null : CatalogChannel.unpacked((String) found.get("text"));
    }

    /** The description of a table whose rows are copied to where all clusters see them. */
    private Map withRows(String database, String name, Map tree) throws Exception {
        String from = CatalogRows.location((Map) ((List) tree.get("table")).get(1));
        if (!from.startsWith("file:/cluster/") && !from.startsWith("file:" + this.directory.getParent() + "/")) {
            return tree;
        }
        Path top = new Path(this.standard.locationUri());
        Path parent = database.equals(this.standard.name()) ? top : new Path(top, database + ".db");
        Path to = new Path(new Path(parent, CatalogRows.place()), name);
        FileSystem source = new Path(from).getFileSystem(this.conf);
        FileSystem target = to.getFileSystem(this.conf);
        target.mkdirs(to.getParent());
        if (source.exists(new Path(from)) && !FileUtil.copy(source, new Path(from), target, to, false, this.conf)) {
            throw new IOException("its rows cannot be copied from " + from + " to " + to);
        }
        return (Map) moved(tree, from, to.toUri().toString());
    }

    private static Object moved(Object tree, String from, String to) {
        if (tree instanceof String) {
            String text = (String) tree;
            return text.equals(from) || text.startsWith(from + "/") ? to + text.substring(from.length()) : text;
        } else if (tree instanceof List) {
            List found = new ArrayList();
            for (int index = 0; index < ((List) tree).size(); index++) {
                found.add(moved(((List) tree).get(index), from, to));
            }
            return found;
        } else if (tree instanceof Map) {
            Map found = new LinkedHashMap();
            for (java.util.Iterator each = ((Map) tree).entrySet().iterator(); each.hasNext();) {
                Map.Entry entry = (Map.Entry) each.next();
                found.put(entry.getKey(), moved(entry.getValue(), from, to));
            }
            return found;
        }
        return tree;
    }

    // ── a drop or a rename in the middle of which the driver was killed ───────────────────────────────────────────────────

    /** The descriptions decide: what they know goes back to its place. */
    private void putBack(File record, File[] files) throws Exception {
        if (!record.exists()) {
            return;
        }
        Set known = new HashSet();
        for (int index = 0; index < files.length; index++) {
            if (files[index].getName().endsWith(SUFFIX)) {
                collect(new ObjectMapper().readValue(files[index], Object.class), known);
            }
        }
        List moves = (List) new ObjectMapper().readValue(record, List.class);
        for (int index = 0; index < moves.size(); index++) {
            Path from = new Path((String) ((List) moves.get(index)).get(0));
            Path to = new Path((String) ((List) moves.get(index)).get(1));
            FileSystem fs = from.getFileSystem(this.conf);
            if (known.contains(from.toString()) && fs.exists(to) && !fs.exists(from)) {
                fs.rename(to, from);
            }
        }
        Files.deleteIfExists(record.toPath());
    }

    private static void collect(Object tree, Set found) {
        java.util.Collection parts = tree instanceof Map ? ((Map) tree).values() : new ArrayList();
        if (tree instanceof List) {
            parts = (List) tree;
            if (parts.size() == 2 && "uri".equals(((List) tree).get(0))) {
                found.add(new Path((String) ((List) tree).get(1)).toString());
            }
        }
        for (java.util.Iterator each = parts.iterator(); each.hasNext();) {
            collect(each.next(), found);
        }
    }
}
