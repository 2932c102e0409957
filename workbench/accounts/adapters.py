"""How django-allauth behaves here: no registration, the password confirms a person, secrets are encrypted."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.totp.internal.auth import generate_totp_secret
from cryptography.fernet import InvalidToken
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from workbench.accounts.secrets import cipher
from workbench.accounts.throttle import client_address

SECOND_FACTOR = "workbench.accounts.second_factor"


class AccountAdapter(DefaultAccountAdapter):
    """People join by invitation, and are asked for their password before they change how they log in."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_address(request)

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        way = {"id": "reauthenticate", "description": "password", "url": reverse("account_reauthenticate")}
        return [way] if user.is_authenticated else []

    def respond_user_inactive(self, request: HttpRequest, user: Any) -> HttpResponse:
        messages.error(request, "This login has been ended.")
        return redirect("login")


class SecondFactorAdapter(DefaultMFAAdapter):
    """Keeps the secrets of authenticator apps and recovery codes encrypted under a key derived from SECRET_KEY."""

    def encrypt(self, text: str) -> str:
        return cipher(SECOND_FACTOR).encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """The secret; a random one, which no code fits, when SECRET_KEY is another than at the time."""
        try:
            return cipher(SECOND_FACTOR).decrypt(encrypted_text.encode()).decode()
        except InvalidToken:
            return generate_totp_secret()
