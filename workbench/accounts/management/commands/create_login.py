"""`manage.py create_login`: make an organisation and its admin, and print the login. It may be repeated."""

import hashlib
import json
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from workbench.accounts import services, tokens
from workbench.accounts.models import ApiToken, Membership, Organisation, Role, User
from workbench.short_text import check_short_text
from workbench.storage.secret_files import kept_secret

EMAIL = "admin@localhost.localdomain"


class Command(BaseCommand):
    """Creates an organisation and an admin, whose generated password is kept beside the data until it is changed."""

    help = "Create an organisation with an admin and print the login; --token prints a write token as well."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--email", default=EMAIL)
        parser.add_argument("--name", default="Admin")
        parser.add_argument("--organisation", default="My organisation")
        parser.add_argument("--token", action="store_true", help="also make and print an API token that may write")
        parser.add_argument("--migrate", action="store_true", help="migrate the database first")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        for option in ("name", "organisation"):
            try:
                options[option] = check_short_text(options[option])
            except ValueError as error:
                raise CommandError(f"--{option}: {error}") from None
        if options["migrate"]:
            call_command("migrate", interactive=False, verbosity=0)
        email = options["email"].lower()
        whose = "" if email == EMAIL else f"_{hashlib.sha256(email.encode()).hexdigest()[:16]}"
        password = kept_secret(settings.WORKBENCH_DATA / f"first_password{whose}")
        user = User.objects.filter(email=email).first()
        if user is None:
            user = User.objects.create_user(options["email"], password, name=options["name"])
        organisation = self._organisation(user, options["organisation"])
        login = {"email": user.email, "password": password if user.check_password(password) else None}
        if options["token"]:
            _, login["token"] = tokens.issue(organisation, user, "create_login", ApiToken.Scope.WRITE)
        self._print(login, options["json"])

    @staticmethod
    def _organisation(user: User, name: str) -> Organisation:
        membership = Membership.objects.filter(user=user, organisation__name=name, role=Role.ADMIN).first()
        return membership.organisation if membership else services.create_organisation(name, user)

    def _print(self, login: dict[str, str | None], as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(login))
            return
        self.stdout.write(f"email:    {login['email']}")
        self.stdout.write(f"password: {login['password'] or '(the one you chose)'}")
        if "token" in login:
            self.stdout.write(f"token:    {login['token']}")
