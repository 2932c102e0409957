"""By how much what a stage tries may exceed the stage's time before it counts as hanging."""

from kernels.measure.intervals import percentile
from workers.documents.stages import StageInput

LEAST_SECONDS = 120.0
REQUESTS = 20.0
"""So many requests of the present deployment, with their wait for the others, fit into the overrun."""


def overrun_seconds(document: StageInput) -> float:
    """Seconds by which what is tried may exceed the stage's time before the stage's process is ended.

    It grows with what the present deployment's requests take.
    """
    return LEAST_SECONDS + requests_seconds(document)


def requests_seconds(document: StageInput) -> float:
    """Seconds that REQUESTS of the present deployment take, with their wait for the others; 0 where none were measured.

    Every client is served before anything is timed, which takes about as long as one client waits for its answer, and
    some rounds follow whatever time is left.
    """
    measured = document.results.baseline.distributions if document.results.baseline else []
    waits = [percentile(sorted(dist.samples), 50) for dist in measured if dist.metric in ("e2e", "batch_latency")]
    return REQUESTS * max(waits, default=0.0) / 1000
