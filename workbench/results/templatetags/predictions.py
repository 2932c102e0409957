"""How far the model of a GPU is known to be off, beside figures that are modelled."""

from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from workbench.results.predictions import error_words

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
