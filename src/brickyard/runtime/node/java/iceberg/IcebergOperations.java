package brickyard;

import java.io.IOException;
import java.util.Set;
import org.apache.iceberg.BaseMetastoreTableOperations;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.RuntimeIOException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.spark.SparkSchemaUtil;

/**
 * What Iceberg does with one table. A commit writes a new metadata file and then replaces the file's name in the table's entry of
 * the workspace's metastore, if the entry still names the file that the commit is based on. Compiled as IcebergFiles.java is.
 */
final class IcebergOperations extends BaseMetastoreTableOperations {
    private final IcebergEntries entries;
    private final FileIO files;
    private final Set places; // of managed tables that are being created
    private final String database;
    private final String name;

    IcebergOperations(IcebergEntries entries, FileIO files, Set places, String database, String name) {
        this.entries = entries;
        this.files = files;
        this.places = places;
        this.database = database;
        this.name = name;
    }

    protected String tableName() {
        return this.database + "." + this.name;
    }

    public FileIO io() {
        return this.files;
    }

    protected void doRefresh() {
        String location;
        try {
            location = this.entries.metadata(this.database, this.name);
        } catch (Exception error) {
            throw failure(error);
        }
        if (location != null) {
            refreshFromMetadataLocation(location);
        } else if (currentMetadataLocation() != null) {
            throw new NoSuchTableException("The table " + tableName() + " is gone", new Object[0]);
        } else {
            disableRefresh();
        }
    }

    protected void doCommit(TableMetadata base, TableMetadata metadata) {
        String written = writeNewMetadataIfRequired(base == null, metadata);
        boolean kept = written.equals(metadata.metadataFileLocation()); // it was there before: a table is registered
        try {
            boolean managed = base == null && this.places.remove(metadata.location());
            String expected = base == null ? null : base.metadataFileLocation();
            boolean made = this.entries.put(
                this.database, this.name, expected, written, metadata.location(), SparkSchemaUtil.convert(metadata.schema()), managed);
            kept |= made;
            if (!made && base == null) {
                throw new AlreadyExistsException("The table " + tableName() + " exists already", new Object[0]);
            } else if (!made) {
                throw new CommitFailedException("The table " + tableName() + " was changed by another statement", new Object[0]);
            }
        } catch (CatalogSilence error) {
            kept = true; // the entry may name it by now, or soon
            throw new CommitStateUnknownException(error);
        } catch (InterruptedException error) {
            kept = true;
            Thread.currentThread().interrupt();
            throw new CommitStateUnknownException(error);
        } catch (Exception error) {
            throw failure(error);
        } finally {
            if (!kept) {
                this.files.deleteFile(written);
            }
        }
    }

    static RuntimeException failure(Exception error) {
        if (error instanceof RuntimeException) {
            return (RuntimeException) error;
        }
        return new RuntimeIOException(
            error instanceof IOException ? (IOException) error : new IOException(error), error.getMessage(), new Object[0]);
    }
}
