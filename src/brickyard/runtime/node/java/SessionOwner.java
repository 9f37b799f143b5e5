package brickyard;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.CurrentUserContext$;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SessionState;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Whose a session is, and the pool of its jobs. An optimizer rule that changes nothing, since a session's rules are the only thing that
 * every copy of a session has (streams run in copies) and that no setting and no statement can reach.
 */
public final class SessionOwner extends Rule {
    private static final Logger LOG = LoggerFactory.getLogger(SessionOwner.class);
    private static final InheritableThreadLocal SERVED = new InheritableThreadLocal(); // not null: the thread has worked for a remote session

    public final String user;
    public final String pool;
    public final boolean remote; // a Spark Connect session: its jobs run on threads that have served others

    private SessionOwner(String user, String pool, boolean remote) {
        super();
        this.user = user.isEmpty() ? null : user;
        this.pool = pool;
        this.remote = remote;
    }

    public TreeNode apply(TreeNode plan) {
        return plan;
    }

    /** Gives a session (SparkSession, of another class in Spark 4) its owner. The first one stays. */
    public static void own(Object session, String user, String pool, boolean remote) throws Exception {
        SessionState state = (SessionState) get(session, "sessionState");
        synchronized (state) {
            SessionOwner known = of(state.experimentalMethods());
            if (known != null && known.pool.equals(pool)) {
                return;
            }
            scala.collection.immutable.List rules = (scala.collection.immutable.List) scala.collection.immutable.List$.MODULE$.empty();
            for (scala.collection.Iterator each = state.experimentalMethods().extraOptimizations().iterator(); each.hasNext();) {
                Object rule = each.next();
                if (!(rule instanceof SessionOwner)) {
                    rules = rules.$colon$colon(rule);
                }
            }
            rules = rules.reverse().$colon$colon(new SessionOwner(user, pool, remote));
            state.experimentalMethods().extraOptimizations_$eq(rules);
        }
        JobPools.sweep((SparkContext) get(session, "sparkContext"));
    }

    /** Gives a session the workspace's names of its catalog, before it has planned anything: later, its first plan would not know them. */
    public static void name(Object session) throws Exception {
        SessionState state = (SessionState) get(session, "sessionState");
        try {
            CatalogNames.give(state.catalogManager(), state.conf(), new InformationSchema(state));
        } catch (Throwable error) { // as of a catalog that cannot be made: its first statement says so
            LOG.warn("A session does not know the workspace's names of its catalog", error);
        }
    }

    /** Has the jobs of this thread be a command's, in its context's pool unless the thread has chosen another, and in its user's name. */
    public static void join(SparkContext context, String group, String description, String user, String pool) {
        context.setJobGroup(group, description, true);
        if (!user.isEmpty()) {
            CurrentUserContext$.MODULE$.CURRENT_USER().set(user);
        }
        if (!pool.isEmpty() && JobPools.isOwn(context.getLocalProperty(JobPools.PROPERTY))) {
            context.setLocalProperty(JobPools.PROPERTY, pool);
        }
    }

    /** Puts this thread, which plans for the session, into its owner's name and pool. */
    public void take(SparkContext context, SQLConf conf) {
        CurrentUserContext$.MODULE$.CURRENT_USER().set(this.user);
        if (this.remote) {
            SERVED.set(Boolean.TRUE);
            JobPools.sweep(context);
            context.setLocalProperty(JobPools.PROPERTY, conf.getConfString(JobPools.PROPERTY, this.pool));
        } else if (JobPools.isOwn(context.getLocalProperty(JobPools.PROPERTY))) {
            context.setLocalProperty(JobPools.PROPERTY, this.pool);
        }
    }

    /** This thread plans for a session of nobody's: nothing of a remote session that it has served is left. */
    public static void leave(SparkContext context) {
        if (SERVED.get() != null) {
            SERVED.remove();
            CurrentUserContext$.MODULE$.CURRENT_USER().remove();
            context.setLocalProperty(JobPools.PROPERTY, null);
        }
    }

    /** Stops the streams of those queries (a map of all that run) that belong to a pool: its context is gone, and nobody can stop them. */
    public static void stopStreams(Map queries, String pool) throws Exception {
        for (Iterator each = new ArrayList(queries.values()).iterator(); each.hasNext();) {
            Object query = each.next();
            SessionOwner owner = of(((SessionState) get(get(query, "sparkSession"), "sessionState")).experimentalMethods());
            if (owner != null && owner.pool.equals(pool)) {
                new Stopping(query).start(); // it waits for the stream's end, which a function of its user's may delay
            }
        }
    }

    private static final class Stopping extends Thread {
        private final Object query;

        Stopping(Object query) {
            super("stop-stream");
            setDaemon(true);
            this.query = query;
        }

        public void run() {
            try {
                get(this.query, "stop");
            } catch (Exception error) {
                LOG.warn("A stream of a context that is over did not stop", error);
            }
        }
    }

    public static SessionOwner of(ExperimentalMethods methods) {
        for (scala.collection.Iterator each = methods.extraOptimizations().iterator(); each.hasNext();) {
            Object rule = each.next();
            if (rule instanceof SessionOwner) {
                return (SessionOwner) rule;
            }
        }
        return null;
    }

    /** What a method returns. Spark 4 has sessions and queries in other classes than Spark 3. */
    public static Object get(Object session, String name) throws Exception {
        Method method = session.getClass().getMethod(name, new Class[0]);
        return method.invoke(session, new Object[0]);
    }
}
