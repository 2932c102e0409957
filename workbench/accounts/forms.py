"""Forms of login, members and tokens."""

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from workbench.accounts.models import ApiToken, Role, User
from workbench.accounts.throttle import LoginThrottle


class LoginForm(AuthenticationForm):
    """Email and password. After too many failed attempts it refuses every login for LOGIN_WINDOW_SECONDS."""

    def clean(self) -> dict[str, Any]:
        assert self.request is not None
        throttle = LoginThrottle(self.request, self.cleaned_data.get("username", ""))
        wait = throttle.wait()
        if wait:
            raise ValidationError(f"Too many failed logins; try again in {wait} minutes.", code="throttled")
        cleaned = super().clean()
        throttle.clear()
        return cleaned


class InvitationForm(forms.Form):
    """The email address to invite, and the role of the new member."""

    email = forms.EmailField(label="Email")
    role = forms.ChoiceField(choices=Role.choices, initial=Role.ENGINEER, label="Role")


class AcceptForm(forms.Form):
    """Name and password of a person who accepts an invitation."""

    name = forms.CharField(max_length=120, label="Your name", widget=forms.TextInput(attrs={"autocomplete": "name"}))
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
    """A token's name and scope."""

    name = forms.CharField(max_length=80, label="Name", help_text="Where it is used, such as “CI of the voice agent”.")
    scope = forms.ChoiceField(choices=ApiToken.Scope.choices, label="Scope")
