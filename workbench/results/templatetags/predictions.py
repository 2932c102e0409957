"""How far the model of a GPU is known to be off, beside figures that are modelled."""

from statistics import median
from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from kernels.hardware import GPUS
from workbench.intake.services.ceilings import stage_fields
from workers.documents.gpu_class import single_gpu_class
from workers.documents.prediction import ComparedFigure

LAST_RUNS = 100
"""The error is that of as many runs as ended last."""

register = template.Library()


@register.simple_tag
def known_error(organisation: Any, gpu_class: str) -> SafeString:
    """A sentence with the known error of predictions on the GPU, linked to the line that defines it."""
    address = f"{reverse('method')}#prediction"
    return format_html(
        '<p class="small muted known-error"><a class="term" href="{}">How far off</a>: {}</p>',
        address,
        error_words(organisation, gpu_class),
    )


def error_words(organisation: Any, gpu_class: str) -> str:
    """How far what the model predicted before runs on a GPU was from what they measured, in a sentence.

    Figures that an older version predicted, by the roofline alone, do not count.
    """
    gpu = single_gpu_class(gpu_class)
    name = GPUS[gpu].name if gpu in GPUS else gpu_class
    predictions = stage_fields(organisation, gpu, "report", "result__predicted")[:LAST_RUNS]
    runs = [known for figures in predictions if (known := [figure for figure in figures or [] if figure.get("runner")])]
    errors = [abs(ComparedFigure.model_validate(figure).error) for figures in runs for figure in figures]
    if not errors:
        return f"On {name} no run has yet compared what was predicted with what was measured."
    count = "one run" if len(runs) == 1 else f"{len(runs)} runs"
    return (
        f"On {name} what was predicted before a run was off by {100 * median(errors):.0f} % in the median and "
        f"{100 * max(errors):.0f} % at most, over {len(errors)} figures of {count}."
    )
