"""Run beside the stack: migrates its database, and makes a member with a token, and a model."""

import json
import os
import sys

import django

sys.path.insert(0, os.getcwd())
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "workbench.settings")
django.setup()

from django.contrib.auth.hashers import PBKDF2PasswordHasher  # noqa: E402
from django.core.management import call_command  # noqa: E402

from kernels.model_files.digests import content_digest  # noqa: E402
from tests.sample_results import manifest  # noqa: E402
from workbench.accounts import services, tokens  # noqa: E402
from workbench.accounts.models import User  # noqa: E402
from workbench.intake import blobs  # noqa: E402
from workbench.intake.models import Model, StoredFile  # noqa: E402
from workers.documents.model import ModelFile  # noqa: E402


def make_member_and_model() -> dict[str, str]:
    user = User.objects.create_user("engineer@voice.test", "correct horse battery")
    organisation = services.create_organisation("Voice", user)
    _, token = tokens.issue(organisation, user, "test", "write")
    sha256, size = blobs.store([b"weights\n"])
    files = [ModelFile(path="weights.txt", sha256=sha256, size=size)]
    content = content_digest([("weights.txt", sha256)])
    uploaded = {"files": files, "content_digest": content, "generated": False, "source": "upload"}
    facts = manifest().model_copy(update=uploaded)
    model = Model.objects.create(
        organisation=organisation, name="tiny", digest=facts.digest, content_digest=content,
        manifest=facts.model_dump(), size=size,
    )  # fmt: skip
    StoredFile.objects.create(model=model, path="weights.txt", sha256=sha256, size=size)
    return {"digest": model.digest, "token": token}


call_command("migrate", verbosity=0)
PBKDF2PasswordHasher.iterations = 1
print(json.dumps(make_member_and_model()))
