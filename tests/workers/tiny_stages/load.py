"""Reads the recording that the worker handed over, where it may not write, and says what is in it."""

from workers.documents.load import UnderLoadResult
from workers.documents.stages import StageInput
from workers.harness.context import Context, StageError
from workers.loadtest.recording import read


def run(document: StageInput, context: Context) -> UnderLoadResult:
    """Raises StageError where the recording's folder can be written to."""
    file = context.recordings / document.workload.traffic.recording
    lengths = [line.prompt_tokens for line in read(file)]
    try:
        file.write_text("")
    except OSError:
        objectives = [objective for objective in document.workload.objectives if objective.limit is not None]
        return UnderLoadResult(sentence=f"It has {lengths}.", recording=document.recording, objectives=objectives)
    raise StageError("the recording can be changed")
