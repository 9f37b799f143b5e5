package tests;

import java.io.IOException;
import java.util.concurrent.CyclicBarrier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;

/** Two writers that ask for the same new name at the same moment, again and again. Compiled by Janino. */
public final class Races implements Runnable {
    private final Configuration conf;
    private final String top;
    private final String way;
    private final int rounds;
    private final int[][] winners; // by writer and round: 1 for who was told that the name is its own
    private final CyclicBarrier start = new CyclicBarrier(2);
    private int writers;
    private Throwable failure;

    public Races(Configuration conf, String top, String way, Integer rounds) {
        this.conf = conf;
        this.top = top;
        this.way = way;
        this.rounds = rounds.intValue();
        this.winners = new int[2][this.rounds];
    }

    /** Names with no owner, names with two, and names whose file is another's than its owner's. */
    public String outcome() throws Exception {
        new Path(this.top).getFileSystem(this.conf).mkdirs(new Path(this.top));
        Thread other = new Thread(this);
        other.start();
        run();
        other.join();
        if (this.failure != null) {
            throw new RuntimeException(this.failure);
        }
        int none = 0;
        int two = 0;
        int wrong = 0;
        FileSystem fs = new Path(this.top).getFileSystem(this.conf);
        for (int round = 0; round < this.rounds; round++) {
            int owners = this.winners[0][round] + this.winners[1][round];
            none += owners == 0 ? 1 : 0;
            two += owners == 2 ? 1 : 0;
            FSDataInputStream file = fs.open(name(round));
            wrong += this.winners[file.read()][round] == 1 ? 0 : 1;
            file.close();
        }
        return none + " " + two + " " + wrong + " " + fs.listStatus(new Path(this.top)).length;
    }

    private Path name(int round) {
        return new Path(this.top, "name-" + round);
    }

    public void run() {
        int writer;
        synchronized (this) {
            writer = this.writers++;
        }
        try {
            FileSystem fs = new Path(this.top).getFileSystem(this.conf);
            FileContext context = FileContext.getFileContext(new Path(this.top).toUri(), this.conf);
            for (int round = 0; round < this.rounds; round++) {
                Path own = new Path(this.top, "draft-" + writer + "-" + round);
                if (!this.way.equals("create")) {
                    write(fs.create(own, true), writer);
                }
                this.start.await();
                this.winners[writer][round] = take(fs, context, own, name(round), writer) ? 1 : 0;
                if (!this.way.equals("create")) {
                    fs.delete(own, false);
                }
            }
        } catch (Throwable error) {
            this.failure = error;
            this.start.reset();
        }
    }

    private boolean take(FileSystem fs, FileContext context, Path own, Path name, int writer) throws IOException {
        try {
            if (this.way.equals("context")) {
                context.rename(own, name, new Options.Rename[0]);
            } else if (this.way.equals("rename")) {
                return fs.rename(own, name);
            } else {
                write(fs.create(name, false), writer);
            }
            return true;
        } catch (org.apache.hadoop.fs.FileAlreadyExistsException taken) {
            return false;
        }
    }

    private static void write(FSDataOutputStream stream, int writer) throws IOException {
        stream.write(writer);
        stream.close();
    }
}
