"""Exports traces as OpenTelemetry's environment variables say; imported only if these name an exporter.

OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 anyrt serve model.onnx
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Final

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from anyrt.core.errors import ArgumentError

GROUP: Final = "opentelemetry_traces_exporter"  # the entry points that exporters register
OTLP: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def export_traces(names: Sequence[str]) -> None:
    """Export spans by these exporters, which read their variables themselves, as sampler and batches do; no
    effect if a program has set a provider. ArgumentError AR304 if an exporter is not installed."""
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return
    known = {e.name: e for e in entry_points(group=GROUP)}
    protocol = next((os.environ[n] for n in PROTOCOLS if os.environ.get(n)), "http/protobuf")
    exporters = [OTLP.get(protocol, protocol) if n == "otlp" else n for n in names]
    missing = [n for n in exporters if n not in known]
    if missing:
        do = "install the package of the exporter"
        raise ArgumentError("AR304", "OTEL_TRACES_EXPORTER", missing[0], ", ".join(sorted(known)), do)
    resource = Resource.create()
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "anyrt"}))
    provider = TracerProvider(resource=resource)
    for name in exporters:
        provider.add_span_processor(BatchSpanProcessor(known[name].load()()))
    trace.set_tracer_provider(provider)
