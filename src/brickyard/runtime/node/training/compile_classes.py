"""Compiles our classes for Spark: `start.py compile-classes --manifest FILE --out JAR`.

Uses the compiler that Spark contains for its queries, so no JDK is needed. The JAR appears complete or not at all.
On failure: exit code 1 and a last {"error": ...} line.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from ..jvm.errors import error_text
from ..jvm.launch import JvmOptions
from ..jvm.process import Jvm
from ..processes import Spawner
from .program import run_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..documents import ManifestDocument

HOST = "127.0.0.1"
HEAP_MB = 256
SOURCES = Path(__file__).resolve().parents[1] / "java"
FACES = {
    "CatalogFace": "org.apache.spark.sql.catalyst.catalog.ExternalCatalog",
    "ParserFace": "org.apache.spark.sql.catalyst.parser.ParserInterface",
}
# Spark looks for a format as the statement spells it.
MISSING = ("delta", "Delta", "DELTA", "iceberg", "Iceberg", "ICEBERG", "cloudFiles", "cloudfiles")
BOXES = {"boolean": "Boolean", "int": "Integer", "long": "Long", "double": "Double"}
METHOD = re.compile(r"public (?:abstract|default) ([\w.]+) [\w.]+\.(\w+)\(([^)]*)\)")  # return type, name, parameter types
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same sources make the same JAR


class CompileError(Exception):
    """The classes could not be compiled; the message says why."""


def compile_all(jvm: Any, *, more: Iterable[str]) -> dict[str, bytes]:
    """Returns name -> bytes of every class. Raises Py4JError for anything missing from the runtime's Spark. A source may use
    the faces, and the classes of sources before it in the alphabet. `more`: directories of sources that this runtime can use."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    texts = [face(name, trait, [str(each) for each in loader.loadClass(trait).getMethods()]) for name, trait in FACES.items()]
    texts += [source.read_text() for source in sorted(SOURCES.glob("*.java"))]
    for each in more:
        texts += [source.read_text() for source in sorted((SOURCES / each).glob("*.java"))]
    return compile_texts(jvm, texts + [missing(name) for name in MISSING])


def compile_texts(jvm: Any, texts: Iterable[str]) -> dict[str, bytes]:
    """Returns name -> bytes of every class of the sources, each of which may use those before it. Raises Py4JError."""
    found: dict[str, bytes] = {}
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for text in texts:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(text)
        loader = compiler.getClassLoader()
        found.update({str(name): bytes(code) for name, code in dict(compiler.getBytecodes()).items()})
    return found


def suitable(manifest: ManifestDocument) -> list[str]:
    """Returns the directories of sources that need more than every runtime has."""
    version = tuple(map(int, manifest["spark_version"].split(".")[:2]))
    has_iceberg = bool(manifest.get("has_iceberg"))
    newer = version >= (3, 5)
    places = {"iceberg": has_iceberg, "iceberg35": has_iceberg, "spark35": newer, "scala212": newer and version < (4, 0)}
    places |= {"spark4": version >= (4, 0), "photon": newer}
    return [name for name, there in places.items() if there]


def face(name: str, trait: str, methods: Iterable[str]) -> str:
    """Returns the source of a class that passes every call of a Scala trait to an InvocationHandler and throws what that
    throws. A java.lang.reflect.Proxy would wrap Spark's own errors, which Java checks and Scala does not declare: nobody could
    catch or read them. `methods`: as Java prints them."""
    return f"""
package brickyard;
final class {name} implements {trait} {{
    private final java.lang.reflect.InvocationHandler handler;
    {name}(java.lang.reflect.InvocationHandler handler) {{
        this.handler = handler;
    }}
    private Object call(String name, Class[] types, Object[] arguments) {{
        try {{
            return this.handler.invoke(this, {trait}.class.getMethod(name, types), arguments);
        }} catch (Throwable error) {{
            return new scala.util.Failure(error).get(); // throws it
        }}
    }}
    {"".join(_method(*found.groups()) for found in map(METHOD.match, methods) if found)}
}}
"""


def missing(name: str) -> str:
    """Returns the source of the class that Spark takes for a format of which it has no jar (MissingFormat.java)."""
    return f"""
package {name};
public final class DefaultSource extends brickyard.MissingFormat {{
    public DefaultSource() {{
        super("{name}");
    }}
}}
"""


def _method(returned: str, name: str, parameters: str) -> str:
    types = [each.replace("$", ".") for each in parameters.split(",") if each]
    taken = ", ".join(f"{each} a{index}" for index, each in enumerate(types))
    classes = ", ".join(f"{each}.class" for each in types)
    given = ", ".join(f"(Object) a{index}" for index in range(len(types)))
    call = f'call("{name}", new Class[] {{{classes}}}, new Object[] {{{given}}})'
    answer = f"{call};" if returned == "void" else f"return ({BOXES.get(returned, returned)}) {call};"
    return f"public {returned} {name}({taken}) {{ {answer} }}\n"


def write_jar(classes: Mapping[str, bytes], out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f".{out.name}.{os.getpid()}")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, code in sorted(classes.items()):
            jar.writestr(zipfile.ZipInfo(name.replace(".", "/") + ".class", _EPOCH), code)
    draft.replace(out)


def run(manifest: ManifestDocument, out: Path, scratch: Path) -> None:
    """Compiles in a separate JVM. Raises CompileError and JvmError."""
    write(manifest, out, scratch, lambda jvm: compile_all(jvm, more=suitable(manifest)))


def write(
    manifest: ManifestDocument, out: Path, scratch: Path, work: Callable[[Any], dict[str, bytes]], *, layers: tuple[str, ...] = ()
) -> None:
    """Writes the classes that `work` compiles in a JVM of the runtime, with a layer's JARs. Raises CompileError and JvmError."""
    options = JvmOptions(heap_mb=HEAP_MB, worker=True, layers=layers)
    jvm = Jvm(spawner=Spawner(), manifest=manifest, options=options, node_dir=scratch, host=HOST)
    jvm.spawn()
    try:
        jvm.connect()
        write_jar(work(jvm.gateway.jvm), out)
    except Py4JError as error:
        raise CompileError(error_text(error)) from error  # only now, because its text is in the JVM
    finally:
        jvm.stop(5.0)


def main() -> int:
    return run_program(run, description="Compile our classes for Spark.", out="the JAR to write")
