"""Sends traces to a collector by OTLP over HTTP. Only servers with `tracing_endpoint` import this; it needs the extra `tracing`.

Spans wait in a queue of bounded length, which a thread of the SDK sends: a collector that is away or slow costs spans, never a
call. Headers and certificates for the collector come from the variables that OpenTelemetry has for them (docs/tracing.md).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import brickyard
from brickyard.domain.nodeops import MAX_TRACED_JOBS, CommandTrace
from brickyard.domain.tracing import Attributes

log = structlog.get_logger(__name__)

TRACES = "/v1/traces"
QUEUE, BATCH = 4_096, 512  # spans
EVERY_MS = 1_000.0
SEND_S = 10.0
CLOSE_S = 2.0  # a collector that does not answer keeps no server from stopping
REMEMBERED, REMEMBERED_S = 1_000, 900.0  # objects, and for how long what is done for them belongs to the call
_HEADERS = (b"traceparent", b"tracestate")
_propagator = TraceContextTextMapPropagator()


class RecordedSpan:
    """`domain.tracing.Span` of OpenTelemetry."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set(self, attributes: Attributes) -> None:
        self._span.set_attributes(attributes)

    def failed(self, error_type: str) -> None:
        self._span.set_attribute("error.type", error_type)
        self._span.set_status(Status(StatusCode.ERROR))


class OtlpTracing:
    """`domain.tracing.Tracing`. `ratio`: of the traces that begin here; a client that sends a trace decides for itself."""

    def __init__(self, endpoint: str, *, ratio: float, server_url: str, workspace_id: str) -> None:
        url = endpoint.rstrip("/")
        # One line of our own says that a collector is away; the exporter would write one for each batch.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        exporter = _Watched(OTLPSpanExporter(endpoint=url if url.endswith(TRACES) else url + TRACES, timeout=SEND_S), url)
        described = {
            "service.name": "brickyard",
            "service.version": brickyard.__version__,
            "service.instance.id": server_url,
            "brickyard.workspace.id": workspace_id,
        }
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(ratio)), resource=Resource.create(described), shutdown_on_exit=False
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter, max_queue_size=QUEUE, max_export_batch_size=BATCH, schedule_delay_millis=EVERY_MS)
        )
        self._tracer = self._provider.get_tracer("brickyard", brickyard.__version__)
        self._causes: OrderedDict[str, tuple[float, SpanContext]] = OrderedDict()

    def close(self) -> None:
        """Sends what is left, for a moment."""
        closing = threading.Thread(target=self._provider.shutdown, name="close-tracing", daemon=True)
        closing.start()
        closing.join(CLOSE_S)

    @contextlib.contextmanager
    def request(self, name: str, headers: Iterable[tuple[bytes, bytes]], attributes: Attributes) -> Iterator[RecordedSpan]:
        sent = {key.decode("latin-1"): value.decode("latin-1") for key, value in headers if key in _HEADERS}
        with self._span(name, SpanKind.SERVER, attributes, _propagator.extract(sent, Context())) as span:
            yield RecordedSpan(span)

    @contextlib.contextmanager
    def child(self, name: str, attributes: Attributes, *, calls: bool = False, late: bool = False) -> Iterator[None]:
        current = trace.get_current_span()
        if not (current.is_recording() or (late and current.get_span_context().trace_flags.sampled)):
            yield
            return
        with self._span(name, SpanKind.CLIENT if calls else SpanKind.INTERNAL, attributes):
            yield

    @contextlib.contextmanager
    def caused(self, key: str, name: str, attributes: Attributes) -> Iterator[None]:
        when_s, cause = self._causes.get(key, (0.0, None))
        if cause is None or time.monotonic() - when_s > REMEMBERED_S:
            self._causes.pop(key, None)
            yield
            return
        with self._span(name, SpanKind.INTERNAL, attributes, _within(cause)):
            yield

    def remember(self, keys: Iterable[str]) -> None:
        current = trace.get_current_span()
        if not current.is_recording():
            return
        context = current.get_span_context()
        for key in keys:
            _, known = self._causes.get(key, (0.0, None))
            if known is None or known.trace_id != context.trace_id:  # a pass that asks for another one must not go on forever
                self._causes[key] = time.monotonic(), context
                self._causes.move_to_end(key)
        while len(self._causes) > REMEMBERED:
            self._causes.popitem(last=False)

    def traceparent(self) -> str:
        if not trace.get_current_span().get_span_context().trace_flags.sampled:
            return ""
        sent: dict[str, str] = {}
        _propagator.inject(sent)
        return sent.get("traceparent", "")

    def command(self, ran: CommandTrace, attributes: Attributes) -> None:
        now = time.time_ns()
        parent = _propagator.extract({"traceparent": ran.traceparent}, Context())
        if not 0 < ran.began_ms <= ran.ended_ms <= now // 1_000_000 + 1_000:  # users' code may have shaped it
            return
        command = self._tracer.start_span(
            "command", parent, SpanKind.INTERNAL, attributes | {"brickyard.command.status": ran.status},
            start_time=ran.began_ms * 1_000_000,
        )  # fmt: skip
        if ran.status == "Error":
            command.set_status(Status(StatusCode.ERROR))
        for job in ran.jobs[:MAX_TRACED_JOBS]:
            ended_ms = job.ended_ms or ran.ended_ms
            if not ran.began_ms - 1_000 <= job.began_ms <= ended_ms <= ran.ended_ms + 1_000:
                continue
            about: Attributes = {"spark.job.id": job.job_id, "spark.job.tasks": job.tasks, "spark.job.stages": job.stages}
            about |= {"spark.job.status": job.status, "spark.job.group": str(attributes.get("brickyard.command.id", ""))}
            span = self._tracer.start_span(
                "spark job", _within(command.get_span_context()), SpanKind.INTERNAL, about, start_time=job.began_ms * 1_000_000
            )
            if job.status == "FAILED":
                span.set_status(Status(StatusCode.ERROR))
            span.end(ended_ms * 1_000_000)
        command.end(ran.ended_ms * 1_000_000)

    @contextlib.contextmanager
    def _span(self, name: str, kind: SpanKind, attributes: Attributes, parent: Context | None = None) -> Iterator[trace.Span]:
        """An exception's type is recorded, and not its text: that may repeat what a user has sent."""
        with self._tracer.start_as_current_span(
            name, parent, kind, attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as error:
                RecordedSpan(span).failed(getattr(error, "error_code", "") or type(error).__name__)
                raise


def _within(span: SpanContext) -> Context:
    return trace.set_span_in_context(NonRecordingSpan(span), Context())


class _Watched(SpanExporter):
    """Says once when a collector does not take what it is sent, and once when it does again."""

    def __init__(self, exporter: SpanExporter, endpoint: str) -> None:
        self._exporter = exporter
        self._endpoint = endpoint
        self._works = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        works = result is SpanExportResult.SUCCESS
        if works is not self._works:
            self._works = works
            if works:
                log.info("tracing_recovered", endpoint=self._endpoint)
            else:
                log.warning("tracing_failed", endpoint=self._endpoint, why="the collector does not take spans; they are dropped")
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
