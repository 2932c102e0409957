"""Makes an engineer with a token and a login in the migrated database of WORKBENCH_DATA, and a stranger."""

import json

import django

django.setup()

from django.contrib.auth.hashers import PBKDF2PasswordHasher  # noqa: E402
from django.test import Client  # noqa: E402

from workbench.accounts import services, tokens  # noqa: E402
from workbench.accounts.models import User  # noqa: E402

PBKDF2PasswordHasher.iterations = 1  # a third of a second for each password otherwise
user = User.objects.create_user("engineer@voice.test", "correct horse battery", name="Engineer")
organisation = services.create_organisation("Voice", user)
_, secret = tokens.issue(organisation, user, "test", "write")
stranger = User.objects.create_user("engineer@other.test", "correct horse battery", name="Other")
_, others = tokens.issue(services.create_organisation("Other", stranger), stranger, "test", "write")
client = Client()
client.force_login(user)
print(json.dumps({"token": secret, "others": others, "session": client.cookies["sessionid"].value}))
