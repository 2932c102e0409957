"""What each stage of a run does, as people read it."""

import re

from workers.documents.stages import Stage

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
SHORT_OF_TIME = re.compile(r"time was over|s were left")
"""What reasons say of plans that the stage had no time for."""


def out_of_time(stage: Stage) -> str:
    """Why a stage ended that used up its time."""
    return f"Out of time while {DOING[stage]}; allow more minutes."
