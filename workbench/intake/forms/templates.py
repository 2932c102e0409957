"""SLAs to begin with, for the usual kinds of service. Their limits are examples that a customer replaces."""

from dataclasses import dataclass

from workers.documents.model import Kind
from workers.documents.traffic import Traffic
from workers.documents.workload import LoadSearch, Objective, Sla


@dataclass(frozen=True)
class Template:
    """An SLA with its name for people."""

    title: str
    sla: Sla


TEMPLATES: dict[str, Template] = {
    "voice-agent": Template(
        "Voice agent",
        Sla(
            traffic=Traffic(prompt_tokens=128, output_tokens=64),
            objectives=[Objective(metric="ttf_n", n=64, percentile=50, limit=100)],
        ),
    ),
    "chat": Template(
        "Chat",
        Sla(
            traffic=Traffic(prompt_tokens=1024, output_tokens=256, concurrency=4),
            load=LoadSearch(most_users=128),
            objectives=[
                Objective(metric="ttft", percentile=95, limit=500),
                Objective(metric="tpot", percentile=95, limit=30),
            ],
        ),
    ),
    "batch": Template(
        "Batch",
        Sla(
            traffic=Traffic(prompt_tokens=512, output_tokens=128, batch=16),
            load=LoadSearch(most_users=256),
            objectives=[Objective(metric="throughput", percentile=50, limit=1000)],
        ),
    ),
    "embedding": Template(
        "Embedding",
        Sla(
            traffic=Traffic(prompt_tokens=256, output_tokens=1, batch=8),
            objectives=[Objective(metric="batch_latency", percentile=95, limit=50)],
        ),
    ),
}
FOR_KIND: dict[Kind, str] = {"decoder": "voice-agent"}
"""The template to begin with for a kind of model; `embedding` for any other kind."""


def for_kind(kind: Kind) -> Sla:
    """The SLA that the form begins with for a model of this kind."""
    return TEMPLATES[FOR_KIND.get(kind, "embedding")].sla
