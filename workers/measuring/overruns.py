"""By how much what a stage tries may exceed the stage's time before it counts as hanging."""

from workers.documents import budget
from workers.documents.stages import StageInput

MIN_SECONDS = 120.0
REQUESTS = 20.0
"""So many requests of the present deployment, with their wait for the others, fit into the overrun."""


def overrun_seconds(document: StageInput) -> float:
    """Seconds by which what is tried may exceed the stage's time before the stage's process is ended.

    It grows with what the present deployment's requests take.
    """
    return MIN_SECONDS + requests_seconds(document)


def requests_seconds(document: StageInput) -> float:
    """Seconds that REQUESTS of the present deployment take, with their wait for the others; 0 where none were measured.

    Every client is served before anything is timed, which takes about as long as one client waits for its answer, and
    some rounds follow whatever time is left.
    """
    return REQUESTS * budget.request_seconds(document.results)
