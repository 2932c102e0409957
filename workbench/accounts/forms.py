"""Forms of login, members and tokens."""

from typing import Any

from allauth.core.internal.cryptokit import normalize_user_code
from allauth.mfa import app_settings
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.forms import ActivateTOTPForm
from django import forms
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.password_validation import validate_password
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.db import transaction

from workbench.accounts import tokens
from workbench.accounts.models import ApiToken, Role, User
from workbench.accounts.throttle import LoginThrottle
from workbench.audit.models import Action
from workbench.audit.services import record
from workbench.short_text import ShortTextField


class LoginForm(AuthenticationForm):
    """Email and password. After too many failed attempts it refuses every login for LOGIN_WINDOW_SECONDS."""

    def clean(self) -> dict[str, Any]:
        assert self.request is not None
        throttle = LoginThrottle(self.request, self.cleaned_data.get("username", ""))
        wait = throttle.wait()
        if wait:
            raise ValidationError(f"Too many failed logins; try again in {wait} minutes.", code="throttled")
        cleaned = super().clean()
        if self.get_user() is not None:
            throttle.succeeded()
            if throttle.logs_in_too_often():
                raise ValidationError("This account logs in too often; try again later.", code="throttled")
        return cleaned


class PasswordForm(PasswordChangeForm):
    """A new password. It ends the person's other sessions, and, if asked, revokes their API tokens."""

    revoke_tokens = forms.BooleanField(
        required=False,
        label="Revoke my API tokens as well",
        help_text="Your other logins end in any case. What uses one of your tokens stops working.",
    )

    def save(self, commit: bool = True) -> User:
        with transaction.atomic():
            user: User = super().save(commit)
            for membership in user.memberships.select_related("organisation"):
                record(Action.PASSWORD_CHANGED, membership.organisation, user.email, actor=user)
            if self.cleaned_data["revoke_tokens"]:
                tokens.revoke_all(user)
        return user


class InvitationForm(forms.Form):
    """The email address to invite, and the role of the new member."""

    email = forms.EmailField(label="Email", max_length=User._meta.get_field("email").max_length)
    role = forms.ChoiceField(choices=Role.choices, initial=Role.ENGINEER, label="Role")


class AcceptForm(forms.Form):
    """Name and password of a person who accepts an invitation."""

    name = ShortTextField(max_length=120, label="Your name", widget=forms.TextInput(attrs={"autocomplete": "name"}))
    password = forms.CharField(
        label="Password",
        strip=False,
        help_text="At least 10 characters.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, *args: Any, email: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.email = email

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        validate_password(password, User(email=self.email, name=self.cleaned_data.get("name", "")))
        return password


class TokenForm(forms.Form):
    """A token's name, scope and end."""

    name = ShortTextField(max_length=80, label="Name", help_text="Where it is used, such as “CI of the voice agent”.")
    scope = forms.ChoiceField(choices=ApiToken.Scope.choices, label="Scope")
    days = forms.TypedChoiceField(
        choices=((30, "30 days"), (90, "90 days"), (365, "a year"), ("", "never")),
        coerce=int,
        empty_value=None,
        required=False,
        initial=90,
        label="Ends after",
    )


def _mark_code_used(user: Any, code: str) -> None:
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
                _mark_code_used(self.user, code)
            except ValidationError:
                self._emit_authentication_failed(self.authenticator)
                raise
        return code


class SetUpForm(ActivateTOTPForm):  # type: ignore[misc]
    """The code that shows that the app has the secret."""

    def clean_code(self) -> str:
        code = str(super().clean_code())
        _mark_code_used(self.user, code)
        return code
