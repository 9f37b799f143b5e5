"""Failures of statements as SQL clients read them."""

from __future__ import annotations

import grpc

from brickyard.gateway.sql.failures import of_status


def test_a_table_without_a_description_in_json_has_the_class_that_dbt_knows() -> None:
    spark = "[NOT_SUPPORTED_COMMAND_FOR_V2_TABLE] DESCRIBE TABLE AS JSON is not supported for v2 tables. SQLSTATE: 0A000"
    found = of_status(grpc.StatusCode.INTERNAL, spark, ())
    assert (found.error_class, found.sql_state) == ("UNSUPPORTED_FEATURE.TABLE_OPERATION", "0A000")
    other = of_status(grpc.StatusCode.INTERNAL, spark.replace("DESCRIBE TABLE AS JSON", "MSCK"), ())
    assert other.error_class == "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE"
