"""Which classes are rewritten for archives, and which JVMs get them."""

from __future__ import annotations

from typing import Any

from brickyard.runtime.node.jvm import launch
from brickyard.runtime.node.jvm.archives import listed
from brickyard.runtime.node.jvm.launch import JvmOptions

LIST = """
# a list
java/lang/Object id: 0
org/apache/spark/SparkContext id: 17
@lambda-proxy org/apache/spark/A call
@lambda-form-invoker [LF_RESOLVE] java.lang.invoke.Holder
org/apache/spark/B source: x.jar
"""


def test_a_list_of_java_names_classes_among_other_things() -> None:
    assert listed(LIST) == {"java/lang/Object", "org/apache/spark/SparkContext", "org/apache/spark/B"}


def test_rewritten_classes_come_first_unless_the_user_has_jars_of_his_own() -> None:
    manifest: Any = {"spark_home": "/s", "rewritten": "/r/rewritten.jar"}
    assert launch.class_path(manifest, JvmOptions(heap_mb=1)) == "/r/rewritten.jar:/s/jars/*"
    assert launch.class_path(manifest, JvmOptions(heap_mb=1, class_path=("/mine.jar",))) == "/mine.jar:/s/jars/*"
    without: Any = {"spark_home": "/s"}
    assert launch.class_path(without, JvmOptions(heap_mb=1)) == "/s/jars/*"
