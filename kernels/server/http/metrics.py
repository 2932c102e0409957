"""The server's metrics for Prometheus."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

if TYPE_CHECKING:
    from kernels.server.http.client import EngineClient

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
TOKEN_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)


VLLM_NAMES = {
    "serve_running_requests": "vllm:num_requests_running",
    "serve_waiting_requests": "vllm:num_requests_waiting",
    "serve_kv_cache_usage": "vllm:kv_cache_usage_perc",
    "serve_time_to_first_token_seconds": "vllm:time_to_first_token_seconds",
}
"""Metrics that autoscalers and routers read, which know vLLM's names."""


class _Engine:
    """What the engine reports of itself, read when metrics are asked for."""

    def __init__(self, client: "EngineClient") -> None:
        self._client = client

    def collect(self) -> Iterator[Metric]:
        state = self._client.state
        report = state.counted
        gauges = {
            "ready": ("1 while the engine serves", int(state.ready is not None)),
            "running_requests": ("requests that hold KV pages", report.running),
            "waiting_requests": ("requests that wait for KV pages", report.waiting),
            "free_kv_pages": ("KV pages that no request reads", report.free_pages),
            "kv_pages": ("KV pages", report.pages),
            "kv_cache_usage": (
                "the share of KV pages that requests read, 0 to 1",
                1 - report.free_pages / report.pages if report.pages else 0,
            ),
            "megakernel_sequences": (
                "sequences up to which the megakernel takes a step; 0: never",
                report.megakernel_sequences,
            ),
            "graphs_left": ("passes that are still to be captured, when the engine is idle", report.graphs_left),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"serve_{name}", text, value=value)
        if state.ready is not None and state.ready.pause_ms is not None:
            text = "how long a step that reads prompts keeps the tokens of others waiting, at most"
            yield GaugeMetricFamily("serve_longest_pause_seconds", text, value=state.ready.pause_ms / 1e3)
        if state.ready is not None and state.ready.serving is not None:
            kv = GaugeMetricFamily("serve_kv_cache_info", "the precision of KV pages, as asked for", labels=["dtype"])
            kv.add_metric([state.ready.serving.kv_cache_dtype], 1)
            yield kv
        start = GaugeMetricFamily("serve_start_seconds", "the engine's last start, by phase", labels=["phase"])
        for phase, seconds in state.seconds.items():
            start.add_metric([phase], seconds)
        yield start
        yield CounterMetricFamily("serve_preemptions", "requests that gave their pages up", value=report.preempted)
        yield CounterMetricFamily("serve_steps", "passes of the engine", value=report.steps)
        yield CounterMetricFamily(
            "serve_megakernel_steps", "launches of the megakernel among them", value=report.megakernel_steps
        )
        yield CounterMetricFamily("serve_engine_restarts", "restarts of the engine's process", value=state.restarts)
        yield CounterMetricFamily("serve_engine_hangs", "ends of an engine without a sign of life", value=state.hangs)


class Metrics:
    """Counts of requests and tokens, and times; with other web servers of the same engine, those of all together."""

    def __init__(self, client: "EngineClient", model: str, several: bool = False) -> None:
        """`model` is its name to clients. `several`: all processes count in PROMETHEUS_MULTIPROC_DIR's folder."""
        self._registry, self._model = CollectorRegistry(), model
        self._registry.register(_Engine(client))
        own = None if several else self._registry
        if several:
            MultiProcessCollector(self._registry)
        self.requests = Counter("serve_requests", "requests by status", ["path", "status"], registry=own)
        self.prompt_tokens = Counter("serve_prompt_tokens", "tokens of prompts", registry=own)
        self.cached_tokens = Counter(
            "serve_cached_prompt_tokens", "tokens of prompts from the prefix cache", registry=own
        )
        self.tokens = Counter("serve_generated_tokens", "tokens of answers", registry=own)
        self.first_token = Histogram(
            "serve_time_to_first_token_seconds", "request to first token", buckets=SECONDS, registry=own
        )
        self.whole = Histogram(
            "serve_request_seconds", "request to last token, or to vectors", buckets=SECONDS, registry=own
        )
        self.per_token = Histogram(
            "serve_time_per_output_token_seconds",
            "mean time between an answer's tokens",
            buckets=TOKEN_SECONDS,
            registry=own,
        )

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        """All metrics, some of them by vLLM's names too."""
        for metric in self._registry.collect():
            yield metric
            if metric.name in VLLM_NAMES:
                yield self._by_vllms_name(metric)

    def _by_vllms_name(self, metric: Metric) -> Metric:
        name = VLLM_NAMES[metric.name]
        same = Metric(name, metric.documentation, metric.type)
        for sample in metric.samples:
            labels = {"model_name": self._model, **sample.labels}
            same.samples.append(sample._replace(name=name + sample.name.removeprefix(metric.name), labels=labels))
        return same
