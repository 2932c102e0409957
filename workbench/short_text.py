"""Names and other short texts that people write and read: one rule for the API, the forms and the commands."""

import unicodedata
from typing import Annotated, Any

from django import forms
from django.core.exceptions import ValidationError
from pydantic import AfterValidator

JOINERS = "\u200c\u200d"
"""Characters without width that words need: U+200C in Persian, both in Indic scripts, U+200D in emoji."""


def check_short_text(text: str) -> str:
    """The text without the spaces around it.

    Raises ValueError with a reason: it is spaces alone, or has characters that databases and terminals cannot handle.
    """
    written = text.strip()
    if text and not written.strip(JOINERS):
        raise ValueError("spaces alone are not enough")
    if not all(map(_is_allowed, written)):
        raise ValueError("control characters are not allowed")
    return written


def _is_allowed(character: str) -> bool:
    """Also spaces that do not break and those of Japanese, which Python does not count as printable."""
    return character.isprintable() or character in JOINERS or unicodedata.category(character) == "Zs"


ShortText = Annotated[str, AfterValidator(check_short_text)]
"""A short text of a schema that the API takes."""


class ShortTextField(forms.CharField):
    """A short text of a form."""

    def __init__(self, **options: Any) -> None:
        super().__init__(strip=False, **options)

    def clean(self, value: Any) -> str:
        """Raises ValidationError with the same reason, as a sentence."""
        try:
            return check_short_text(super().clean(value))
        except ValueError as error:
            raise ValidationError(f"{error}.".capitalize()) from None
