package brickyard;

import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InputFileBlockLength;
import org.apache.spark.sql.catalyst.expressions.InputFileBlockStart;
import org.apache.spark.sql.catalyst.expressions.InputFileName;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;

/**
 * Gives the native engine's scans the real files of `dbfs:/`, whose scheme it does not know. Spark's plans keep their names until then:
 * a query that shows its files' names is left to Spark. An extension of sessions; its rules come before the engine's own.
 */
public final class NativeScans extends scala.runtime.AbstractFunction1 {
    public Object apply(Object extensions) {
        ((SparkSessionExtensions) extensions).injectColumnar(new Maker(true));
        ((SparkSessionExtensions) extensions).injectQueryStagePrepRule(new Maker(false));
        return scala.runtime.BoxedUnit.UNIT;
    }

    static final class Maker extends scala.runtime.AbstractFunction1 {
        private final boolean columnar;

        Maker(boolean columnar) {
            this.columnar = columnar;
        }

        public Object apply(Object session) {
            Each rule = new Each(session);
            return this.columnar ? (Object) new Columnar(rule) : rule;
        }
    }

    /** For plans that are not adaptive. */
    static final class Columnar extends ColumnarRule {
        private final Rule rule;

        Columnar(Rule rule) {
            super();
            this.rule = rule;
        }

        public Rule preColumnarTransitions() {
            return this.rule;
        }
    }

    /** Of one session. */
    static final class Each extends Rule {
        private final Object session;
        private NativeNames names;

        Each(Object session) {
            super();
            this.session = session;
        }

        public TreeNode apply(TreeNode node) {
            SparkPlan plan = (SparkPlan) node;
            return plan.exists(new NamesFiles()) ? plan : plan.transform(new Scans(names()));
        }

        private synchronized NativeNames names() {
            if (this.names == null) {
                try {
                    SparkContext context = (SparkContext) SessionOwner.get(this.session, "sparkContext");
                    this.names = new NativeNames(new Trees(context.hadoopConfiguration()));
                } catch (Exception error) {
                    throw new IllegalStateException("A session's files cannot be found: " + error, error);
                }
            }
            return this.names;
        }
    }

    /** Whether an operator's expressions show where its rows come from. */
    static final class NamesFiles extends scala.runtime.AbstractFunction1 {
        private final Named named = new Named();

        public Object apply(Object plan) {
            scala.collection.Iterator each = ((SparkPlan) plan).expressions().iterator();
            while (each.hasNext()) {
                if (((Expression) each.next()).exists(this.named)) {
                    return Boolean.TRUE;
                }
            }
            return Boolean.FALSE;
        }
    }

    static final class Named extends scala.runtime.AbstractFunction1 {
        public Object apply(Object it) {
            return Boolean.valueOf(
                it instanceof InputFileName || it instanceof InputFileBlockStart || it instanceof InputFileBlockLength);
        }
    }

    /** Scans of Parquet files in the workspace's trees, without columns about the files. */
    static final class Scans extends scala.runtime.AbstractPartialFunction {
        private final NativeNames names;

        Scans(NativeNames names) {
            this.names = names;
        }

        public boolean isDefinedAt(Object node) {
            if (!(node instanceof FileSourceScanExec)) {
                return false;
            }
            FileSourceScanExec scan = (FileSourceScanExec) node;
            HadoopFsRelation relation = scan.relation();
            return relation.fileFormat().getClass() == ParquetFileFormat.class
                && !(relation.location() instanceof NativeFiles)
                && scan.fileConstantMetadataColumns().isEmpty()
                && this.names.suit(relation.location());
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            FileSourceScanExec scan = (FileSourceScanExec) node;
            HadoopFsRelation of = scan.relation();
            Object[] parts = new Object[scan.productArity()]; // others of other versions of Spark
            for (int index = 0; index < parts.length; index++) {
                parts[index] = scan.productElement(index);
            }
            parts[0] = new HadoopFsRelation(
                new NativeFiles(of.location(), this.names), of.partitionSchema(), of.dataSchema(), of.bucketSpec(), of.fileFormat(),
                of.options(), of.sparkSession());
            return scan.makeCopy(parts);
        }
    }
}
