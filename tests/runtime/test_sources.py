"""What all lines of Spark ask of the Java sources that are compiled when a runtime is installed."""

from __future__ import annotations

import re

from brickyard.runtime import NODE_CODE


def test_no_source_names_spark_env() -> None:
    """SparkEnv of Spark 4.3 names classes that its wheel lacks: the compiler fails on whatever calls it, and so would every
    installation. That runtime is too large to install in each test run."""
    sources = sorted((NODE_CODE / "java").glob("*.java"))
    assert len(sources) > 10
    code = {source.name: re.sub(r"//.*|\"[^\"]*\"", "", source.read_text()) for source in sources}
    named = [name for name, text in code.items() if re.search(r"\bSparkEnv\s*[;.(]", text)]
    assert named == []
