"""Names and other short texts that people write and read: one rule for the API, the forms and the commands."""

from typing import Annotated, Any

from django import forms
from django.core.exceptions import ValidationError
from pydantic import AfterValidator


def check_short_text(text: str) -> str:
    """The text without the spaces around it.

    Raises ValueError with a reason: it is spaces alone, or has characters that databases and terminals cannot handle.
    """
    written = text.strip()
    if text and not written:
        raise ValueError("spaces alone are not enough")
    if not written.isprintable():
        raise ValueError("control characters are not allowed")
    return written


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
