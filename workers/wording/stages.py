"""What each stage of a run does, as people read it."""

from workers.documents.stages import Stage, StageInput
from workers.wording.text import percent

DOING: dict[Stage, str] = {
    "admit": "checking the model and predicting what is possible",
    "baseline": "measuring what runs today",
    "profile": "finding where the time of a request goes",
    "explore": "trying faster kernels for each operation",
    "compose": "timing whole plans made of the fastest kernels",
    "verify": "measuring the best plan beside today and checking its quality",
    "load": "finding how many users keep the promises",
    "price": "computing the price",
    "report": "writing the report",
}
NOT_TRIED, NOT_MEASURED = "Not tried: ", "Not measured: "
"""How the reason begins of a plan that could have been tried, or whose trial was ended."""


def out_of_time(document: StageInput) -> str:
    """Why a stage ended that used up its time: on a CPU that other programs kept busy, more minutes are no help."""
    known, words = document.results, f"Out of time while {DOING[document.stage]}"
    results = known.baseline, known.profile, known.explore, known.compose
    if busy := max((result.environment.busy_share or 0.0 for result in results if result), default=0.0):
        return f"{words}: other programs used {percent(busy, 0)} of the CPU. Run it again on an idle machine."
    return f"{words}; allow more minutes."
