"""`manage.py reset_second_factor EMAIL`: for a person who lost phone, keys and recovery codes."""

from typing import Any

from allauth.mfa.models import Authenticator
from django.core.management.base import BaseCommand, CommandError, CommandParser

from workbench.accounts.models import User


class Command(BaseCommand):
    """Removes a person's authenticator app, passkeys and recovery codes. The password alone logs in again."""

    help = "Remove a person's authenticator app, passkeys and recovery codes."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(email=options["email"].strip().lower()).first()
        if user is None:
            raise CommandError(f"There is no login {options['email']}.")
        removed, _ = Authenticator.objects.filter(user_id=user.pk).delete()
        self.stdout.write(f"Removed {removed} from {user.email}." if removed else f"{user.email} has none.")
