package brickyard;

import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.CurrentUserContext$;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry$;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.CurrentCatalog;
import org.apache.spark.sql.catalyst.expressions.CurrentUser;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.internal.SessionState;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What every session does with each plan: puts the thread that works for it into its owner's name and pool, and its owner's name into
 * the plan. Spark itself looks for the user at the end, by thread: a plan that one user has cached would then be another's, too.
 */
public final class SessionRules {
    private static final FunctionIdentifier SESSION_USER = new FunctionIdentifier("session_user"); // Spark 3 has none
    private static final Logger LOG = LoggerFactory.getLogger(SessionRules.class);

    private SessionRules() {}

    /** Has the session, and all that are made from it, follow these rules. Call it before the session has planned anything. */
    public static void keep(Object session) throws Exception {
        SparkSessionExtensions extensions = (SparkSessionExtensions) SessionOwner.get(session, "extensions");
        extensions.injectResolutionRule(new Maker(false));
        extensions.injectParser(new CatalogParser.Maker());
        extensions.injectPostHocResolutionRule(new Maker(true));
        ReadFiles.offer(extensions);
        FunctionRegistry known = FunctionRegistry$.MODULE$.builtin();
        scala.Option user = known.lookupFunctionBuilder(new FunctionIdentifier("current_user"));
        if (known.lookupFunctionBuilder(SESSION_USER).isEmpty() && user.isDefined()) {
            known.registerFunction(SESSION_USER, (scala.Function1) user.get(), "built-in");
        }
    }

    static final class Maker extends scala.runtime.AbstractFunction1 {
        private final boolean last;

        Maker(boolean last) {
            this.last = last;
        }

        public Object apply(Object session) {
            try {
                SessionState state = (SessionState) SessionOwner.get(session, "sessionState");
                return new Each(session, state, (SparkContext) SessionOwner.get(session, "sparkContext"), this.last);
            } catch (Exception error) {
                throw new IllegalStateException("A session cannot be told whose it is: " + error, error);
            }
        }
    }

    /** Of one session. */
    static final class Each extends Rule {
        private final Object session;
        private final SessionState state;
        private final SparkContext context;
        private final boolean last;
        private final InformationSchema system;
        private boolean named;

        Each(Object session, SessionState state, SparkContext context, boolean last) {
            super();
            this.session = session;
            this.state = state;
            this.context = context;
            this.last = last;
            this.system = new InformationSchema(state);
        }

        public TreeNode apply(TreeNode node) {
            SessionOwner owner = SessionOwner.of(this.state.experimentalMethods());
            if (this.last) {
                try {
                    SessionRelations.prepare(this.session, (LogicalPlan) node);
                } catch (Exception error) { // as without it: what is cached may not be found, or not be new
                    LOG.warn("What is cached was not compared with the files that there are", error);
                }
                return node.containsPattern(TreePattern.CURRENT_LIKE())
                    ? ((LogicalPlan) node).transformAllExpressions(new Names(this.state, owner)) : node;
            }
            if (owner != null) {
                owner.take(this.context, this.state.conf());
            } else {
                SessionOwner.leave(this.context);
            }
            try {
                if (this.named) {
                    CatalogNames.giveUp(this.state.catalogManager(), this.state.conf(), this.system);
                } else {
                    this.named = true;
                    CatalogNames.give(this.state.catalogManager(), this.state.conf(), this.system);
                }
            } catch (Throwable error) { // as of a catalog that cannot be made: Spark says so itself
                LOG.warn("The names of a session's catalog stay as they are", error);
            }
            return node.containsPattern(TreePattern.UNRESOLVED_ATTRIBUTE())
                ? ((LogicalPlan) node).transformAllExpressions(new Columns()) : node;
        }
    }

    /** Has columns that name a table with the catalog (`main.sales.orders.id`) name it as Spark does. */
    static final class Columns extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            if (!(node instanceof UnresolvedAttribute) || ((UnresolvedAttribute) node).nameParts().size() < 4) {
                return false;
            }
            return CatalogNames.isOne((String) ((UnresolvedAttribute) node).nameParts().head());
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            scala.collection.immutable.List parts = ((UnresolvedAttribute) node).nameParts().toList();
            scala.collection.immutable.List rest = (scala.collection.immutable.List) parts.tail();
            return new UnresolvedAttribute(rest.$colon$colon("spark_catalog"));
        }
    }

    /** Replaces the user and the catalog by their names. */
    static final class Names extends scala.runtime.AbstractPartialFunction {
        private final SessionState state;
        private final String user;

        Names(SessionState state, SessionOwner owner) {
            this.state = state;
            Object known = owner != null ? owner.user : CurrentUserContext$.MODULE$.CURRENT_USER().get();
            this.user = (String) known;
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof CurrentUser && this.user != null || node instanceof CurrentCatalog && catalog() != null;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            Object name = node instanceof CurrentUser ? this.user : catalog();
            return Literal$.MODULE$.create(name, ((Expression) node).dataType());
        }

        private String catalog() {
            try {
                return CatalogNames.current(this.state.catalogManager(), this.state.conf());
            } catch (Exception unknown) {
                return null;
            }
        }
    }
}
