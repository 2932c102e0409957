"""The forms that take a code of an authenticator app. A code works once, also where it was shown to set the app up.

django-allauth remembers a used code for one period, but takes it for as many as the clocks may differ by.
"""

from typing import Any

from allauth.core.internal.cryptokit import normalize_user_code
from allauth.mfa import app_settings
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.forms import ActivateTOTPForm
from django.core.cache import cache
from django.core.exceptions import ValidationError


def _use(user: Any, code: str) -> None:
    """Raises ValidationError for a code that was used before."""
    lasts = app_settings.TOTP_PERIOD * (2 * app_settings.TOTP_TOLERANCE + 1)
    if not cache.add(f"code:{user.pk}:{normalize_user_code(code)}", 1, lasts):
        raise get_adapter().validation_error("incorrect_code")


class CodeForm(AuthenticateForm):  # type: ignore[misc]
    """The second step of a login."""

    def clean_code(self) -> str:
        code = str(super().clean_code())
        if self.authenticator.type == Authenticator.Type.TOTP:
            try:
                _use(self.user, code)
            except ValidationError:
                self._emit_authentication_failed(self.authenticator)
                raise
        return code


class SetUpForm(ActivateTOTPForm):  # type: ignore[misc]
    """The code that shows that the app has the secret."""

    def clean_code(self) -> str:
        code = str(super().clean_code())
        _use(self.user, code)
        return code
