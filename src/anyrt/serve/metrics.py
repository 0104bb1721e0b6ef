"""The page at /metrics, by prometheus-client, with Triton's names where it has one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import HistogramMetricFamily, Metric

from anyrt.serve.service import Service
from anyrt.serve.stats import BOUNDS

COUNTS = {
    "nv_inference_request_success": ("success", "Requests that were answered"),
    "nv_inference_request_failure": ("fail", "Requests that were answered with an error"),
}
DURATIONS = {
    "nv_inference_request_duration_us": ("success", "Microseconds of answered requests"),
    "nv_inference_queue_duration_us": ("queue", "Microseconds that requests waited"),
    "nv_inference_compute_input_duration_us": ("compute_input", "Microseconds of joining inputs"),
    "nv_inference_compute_infer_duration_us": ("compute_infer", "Microseconds inside the engine"),
    "nv_inference_compute_output_duration_us": ("compute_output", "Microseconds of taking outputs apart"),
}


class Collector:
    """Reads the statistics of a service whenever the page is requested."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """All metrics; Triton's have no suffix _total, and therefore no type."""
        models = list(self._service.repository.models())

        def metric(name: str, text: str, values: list[float]) -> Metric:
            family = Metric(name, text, "unknown")
            for model, value in zip(models, values, strict=True):
                family.add_sample(name, {"model": model.name, "version": model.version}, value)
            return family

        every = [m.statistics for m in models]
        for name, (key, text) in COUNTS.items():
            yield metric(name, text, [s.durations[key].count for s in every])
        for name, (key, text) in DURATIONS.items():
            yield metric(name, text, [s.durations[key].ns / 1000 for s in every])
        yield metric("nv_inference_count", "Rows that were computed", [s.inference_count for s in every])
        yield metric("nv_inference_exec_count", "Runs of engines", [s.execution_count for s in every])
        yield metric("nv_inference_pending_request_count", "Requests inside", [s.pending for s in every])
        name, text = "anyrt_request_duration_seconds", "Answered requests by their seconds"
        latencies = HistogramMetricFamily(name, text, labels=("model", "version"))
        bounds = [*(str(ns / 1e9) for ns in BOUNDS), "+Inf"]
        for m in models:
            counts = list(zip(bounds, accumulate(m.statistics.latencies), strict=True))
            latencies.add_metric((m.name, m.version), counts, m.statistics.durations["success"].ns / 1e9)
        yield latencies


def page(service: Service) -> bytes:
    """The text of the metrics page."""
    registry = CollectorRegistry()
    registry.register(Collector(service))
    text: bytes = generate_latest(registry)
    return text
