package brickyard;

/** Up to Spark 4.0, which asks for a table by its columns. */
public final class IcebergOverDelta extends IcebergBeforeDelta {
}
