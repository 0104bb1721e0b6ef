"""Spans of OpenTelemetry for inferences, their waits and their runs, where a provider is configured.

with span(tracer(), "POST /v2/models/{name}/infer", headers, {"url.path": path}, status):
    runs.ran([(runs.current(), arrived)], rows=1, start=start)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import anyrt
from anyrt.serve.refused import Reason, Refused

try:
    from opentelemetry import propagate, trace
except ModuleNotFoundError:  # the extra trace is not installed
    trace = None

Span = Any  # Any: of a package that may be absent
Tracer = Any
Facts = Mapping[str, str | int]
INTERNAL: Final = 500  # statuses from which the server is to blame, not the request


def tracer() -> Tracer | None:
    """The tracer of the configured provider; None without one, so that requests spend no time on traces."""
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    return trace.get_tracer("anyrt.serve", anyrt.__anyrt_version__)


@contextlib.contextmanager
def span(
    tracer: Tracer, name: str, headers: object, facts: Facts, status: Callable[[Reason | None], Facts]
) -> Iterator[None]:
    """The span of a request, current inside, in the trace that its headers (a mapping) name. `status`: the
    attributes of its end, None: a good one."""
    parent, refused = propagate.extract(headers), None
    with tracer.start_as_current_span(
        name, parent, trace.SpanKind.SERVER, facts, record_exception=False
    ) as span:
        try:
            yield
        except Refused as error:
            refused = error
            span.set_attribute("error.type", error.reason.name)
            if error.reason.status >= INTERNAL:
                span.set_status(trace.StatusCode.ERROR, error.text)
        span.set_attributes(status(None if refused is None else refused.reason))
    if refused is not None:
        raise refused


@dataclass(frozen=True, slots=True)
class Runs:
    """Records the waits and runs of one model; `facts` are attributes of each run."""

    tracer: Tracer
    facts: Facts

    @staticmethod
    def current() -> Span | None:
        """The recorded span of the request that the caller works for."""
        span = trace.get_current_span()
        return span if span.is_recording() else None

    def ran(self, requests: Sequence[tuple[Span | None, int]], rows: int, start: int, error: str) -> None:
        """A run that began at `start` (perf_counter_ns) and ends now, for requests that arrived at the time
        beside each; `error` "": none.

        The run is a child of the first recorded request, whose sampling it follows, and linked with all."""
        spans = [(s, arrived) for s, arrived in requests if s is not None]
        if not spans:
            return
        now, inside = time.time_ns(), trace.set_span_in_context
        shift = now - time.perf_counter_ns()
        facts = {**self.facts, "anyrt.rows": rows, "anyrt.requests": len(requests)}
        links = [trace.Link(s.get_span_context()) for s, _ in spans]
        kind = trace.SpanKind.INTERNAL
        run = self.tracer.start_span("run", inside(spans[0][0]), kind, facts, links, start + shift)
        for span, arrived in spans:
            span.add_link(run.get_span_context())
            queue = self.tracer.start_span("queue", inside(span), start_time=arrived + shift)
            queue.end(start + shift)
        if error:
            run.set_status(trace.StatusCode.ERROR, error)
        run.end(now)


def runs(name: str, version: str) -> Runs | None:
    """The recorder of a model, None: nothing is recorded."""
    recorder = tracer()
    return None if recorder is None else Runs(recorder, {"anyrt.model": name, "anyrt.version": version})
