"""The JVM of this node: started before there is a role or for one, and kept where it suits the role."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..jvm import launch, layers
from ..jvm.launch import JvmOptions, LaunchError
from ..jvm.process import Jvm, JvmError
from ..processes import Spawner
from ..protocol import Channel, OpError
from ..spark import conf as sparkconf
from ..spark import scriptconf, submitted
from ..spark.place import Place
from . import failures

if TYPE_CHECKING:
    from ..documents import AssignmentDocument, ManifestDocument
    from .contexts import NodeContexts
    from .report import Report
    from .warming import Warming

_AUTHENTICATION = ("spark.authenticate", "spark.connect.authenticate")


class NodeJvm:
    """One JVM after the other, until one has a role. Calls are made one at a time."""

    def __init__(self, *, channel: Channel, spawner: Spawner, report: Report, contexts: NodeContexts) -> None:
        self._channel, self._spawner, self._report, self._contexts = channel, spawner, report, contexts
        self._manifest: ManifestDocument | None = None
        self.node_dir = Path()
        self.running: Jvm | None = None
        self._warming: Warming | None = None  # what a warm node does meanwhile
        self._warm = False  # the JVM has already run Spark once, without a cluster

    @property
    def manifest(self) -> ManifestDocument:
        """Raises OpError."""
        if self._manifest is None:
            raise OpError("INVALID", "the node was not prepared: call `prepare` first, or pass manifest and node_dir to `become`")
        return self._manifest

    def take_settings(self, manifest: ManifestDocument, node_dir: str) -> None:
        self._manifest, self.node_dir = manifest, Path(node_dir)

    def warmed(self, warming: Warming) -> None:
        """The JVM has run Spark once, and goes on to practise."""
        self._warming, self._warm = warming, True

    def fit(self, assignment: AssignmentDocument, place: Place, *, scripted: bool) -> Jvm:
        """Returns the prepared JVM if the assignment can use it, otherwise the right one. `scripted`: init scripts have run.
        Raises OpError."""
        manifest, prepared = self.manifest, self.running
        if self._warming is not None:
            self._warming.cut(assignment)
        try:
            jars = layers.jars(manifest, assignment.get("spark_conf") or {})
            options, photon = prepared.options if prepared else None, layers.has_photon(manifest)
            wanted = launch.wanted_options(assignment, options, layers=jars, photon=photon)
            if prepared is not None:
                reason = "init scripts changed files that a running JVM has read" if scripted and prepared.outdated else ""
                if not reason and prepared.alive and prepared.options == wanted and prepared.host == place.ports_host:
                    self._take_over(prepared, assignment)
                    return prepared
                wanted = self._reject(prepared, wanted, assignment, reason)
            submit_conf = _submit_conf(assignment, manifest, place, dict(wanted.submit_conf)) if wanted.submit_conf else None
        except LaunchError as error:
            raise self._startup_failure(assignment, str(error)) from error
        return self.start(wanted, host=place.ports_host, submit_conf=submit_conf, role=assignment["role"])

    def with_script_conf(self, assignment: AssignmentDocument) -> AssignmentDocument:
        """Returns a driver's assignment with the settings that init scripts have written for it. Raises OpError."""
        conf = assignment.get("spark_conf") or {}
        try:
            found = scriptconf.read(self.node_dir, conf)
        except LaunchError as error:
            raise self._startup_failure(assignment, str(error)) from error
        for note in found.notes:
            self._channel.log(note)
        return {**assignment, "spark_conf": {**found.values, **conf}} if found.values else assignment

    def start(self, options: JvmOptions, *, host: str, submit_conf: Mapping[str, str] | None = None, role: str = "") -> Jvm:
        """Raises OpError, after having reported the failure."""
        jvm = Jvm(spawner=self._spawner, manifest=self.manifest, options=options, node_dir=self.node_dir, host=host)
        self.running = jvm
        try:
            jvm.spawn(submit_conf=submit_conf)
            jvm.connect()
            if why := jvm.refused_archive:
                self._channel.log(f"Java does not use what was prepared for a fast start: {why}")
        except JvmError as error:
            log = failures.tail([jvm.stderr_file, jvm.stdout_file, jvm.log_file])
            jvm.stop(0)
            role = role or (launch.WORKER if options.worker else "driver")
            said, names = failures.output(jvm.outputs), [key for key, _ in options.submit_conf]
            failure = failures.jvm_death(jvm.exit_code or 0, log, role=role, ready=False, said=said, resolving=names)
            if jvm.exit_code is None:
                failure["message"] = str(error)
            self._report.fail(failure)
            raise OpError(failure["code"], failure["message"]) from error
        return jvm

    def _take_over(self, prepared: Jvm, assignment: AssignmentDocument) -> None:
        """Turns the warm node into this cluster's node."""
        if not self._warm:
            return
        worker = assignment["role"] == launch.WORKER
        if worker or assignment.get("user_isolation"):  # a waiting kernel would give its user access to the JVM
            self._contexts.drop()
        try:
            prepared.forget_log()
        except OSError as error:
            raise OpError("INTERNAL_ERROR", f"the log of the warm JVM cannot be emptied: {error}") from error

    def _reject(self, prepared: Jvm, wanted: JvmOptions, assignment: AssignmentDocument, reason: str) -> JvmOptions:
        """Ends an unsuitable JVM; returns the options for a suitable one. `reason`: why it is unsuitable whatever its options."""
        reason = reason or launch.difference(prepared.options, wanted) or "the JVM has ended"
        if self._warm:
            self._warm = False
            self._channel.status(cold_reason=reason, message="starting Java")
            self._contexts.drop()
        if self._warming is not None:
            self._warming.drop_executor()
        self._channel.log(f"the prepared JVM does not suit this cluster: {reason}; starting another")
        prepared.stop(0)
        if prepared.options.frugal and assignment["role"] == launch.WORKER:
            return launch.wanted_options(assignment, None)  # options made for any role are too large for a worker
        return wanted._replace(frugal=False)

    def _startup_failure(self, assignment: AssignmentDocument, text: str) -> OpError:
        code = "WORKER_SETUP_FAILURE" if assignment["role"] == launch.WORKER else "SPARK_STARTUP_FAILURE"
        self._report.fail(failures.failure(code, text))
        return OpError(code, text)


def _submit_conf(
    assignment: AssignmentDocument, manifest: ManifestDocument, place: Place, asked: Mapping[str, str]
) -> dict[str, str]:
    """Returns settings for SparkSubmit: the user's, from which it resolves jars. It does not need the cluster's location.
    `asked`: what it is to resolve. Raises LaunchError for a file that does not exist."""
    if why := submitted.missing(asked, place):
        raise LaunchError(why)
    conf = sparkconf.driver_conf(assignment, manifest, place, master_url="local[1]", executor_archive="")
    return {key: value for key, value in conf.values.items() if not key.startswith(_AUTHENTICATION)}
