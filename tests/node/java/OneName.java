package tests;

import java.io.File;
import java.io.FileWriter;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;

/** Commits as a table's log does: renames a file of this JVM's own to each of many names, which others want as well. */
public final class OneName {
    /** Arguments: a tree, its directory here, its name, a number of names, a number of JVMs, a directory in
     * which they wait for each other, and Hadoop's settings. Prints the names that it was told it got. */
    public static void main(String[] arguments) throws Exception {
        String top = arguments[0];
        String local = arguments[1];
        String me = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        Configuration conf = new Configuration();
        for (int index = 6; index < arguments.length; index++) {
            String[] pair = arguments[index].split("=", 2);
            conf.set(pair[0], pair[1]);
        }
        FileContext context = FileContext.getFileContext(new Path(top).toUri(), conf);
        StringBuilder won = new StringBuilder();
        File ready = new File(arguments[5]);
        int block = count / 30; // all begin each block of names together
        for (int name = 0; name < count; name++) {
            if (name % block == 0) {
                new File(ready, me + "-" + name).createNewFile();
                while (ready.list().length < Integer.parseInt(arguments[4]) * (name / block + 1)) {
                    Thread.yield();
                }
            }
            File own = new File(local, me + "-" + name);
            FileWriter out = new FileWriter(own);
            out.write(me);
            out.close();
            try {
                context.rename(new Path(top, own.getName()), new Path(top, String.valueOf(name)), new Options.Rename[0]);
                won.append(name).append(' ');
            } catch (Exception error) {
                if (!error.getClass().getSimpleName().equals("FileAlreadyExistsException")) {
                    throw error;
                }
                own.delete();
            }
        }
        System.out.println(won);
    }
}
