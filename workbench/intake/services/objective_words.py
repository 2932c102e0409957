"""What a promise says in words, and which of the allowed GPUs could never keep it."""

from workers.documents.model import ModelManifest
from workers.documents.workload import Objective
from workers.documents.workload import Workload as WorkloadDocument
from workers.prediction.feasibility import AvailableGpus, impossible
from workers.wording.text import capitalised, plain, quantity


def sentence(objective: Objective) -> str:
    """The promise as a sentence: `In 95 % of requests the first 64 tokens come within 100 ms.`"""
    if objective.limit is None:
        more = "as much as" if objective.direction == "at_least" else "faster than"
        return f"The median {objective.title} is at least {plain(objective.at_least_faster or 1)} times {more} today."
    limit, share = quantity(objective.limit, objective.unit), f"{objective.percentile:g} %"
    if objective.unit == "ms":
        limit = f"{plain(objective.limit)} ms"
    if objective.metric == "throughput":
        return f"At least {limit} are served, all requests together."
    if objective.metric == "cost_per_mtok":
        return f"{capitalised(objective.title)}: at most {limit}."
    return {
        "ttft": f"In {share} of requests the first token comes within {limit}.",
        "ttf_n": f"In {share} of requests the first {objective.n or 'N'} tokens come within {limit}.",
        "tpot": f"In {share} of requests the tokens after the first come within {limit} each, on average.",
        "itl": f"{share} of the gaps between two tokens last at most {limit}.",
        "e2e": f"{share} of requests are answered in full within {limit}.",
        "batch_latency": f"{share} of batches are answered within {limit}.",
    }[objective.metric]


def below_floor(facts: ModelManifest, document: WorkloadDocument, available: AvailableGpus) -> list[str]:
    """A sentence for each promise that some of the allowed GPU classes can never keep; by all of them it is refused."""
    sentences = []
    for objective in document.objectives:
        refusals = [
            impossible(objective, document, facts, name, available) for name in document.constraints.gpu_classes
        ]
        if not all(refusals):
            sentences += [f"{refusal}." for refusal in refusals if refusal]
    return sentences
