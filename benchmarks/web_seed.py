"""Run beside the site: organisations with members and finished runs, for the load. Prints them as JSON.

DJANGO_SETTINGS_MODULE=workbench.settings python -m benchmarks.web_seed ORGANISATIONS MEMBERS
"""

import json
import sys
from datetime import timedelta

import django

django.setup()

from django.contrib.auth.hashers import make_password  # noqa: E402
from django.utils import timezone  # noqa: E402

from tests import sample_runs  # noqa: E402
from workbench.accounts import services  # noqa: E402
from workbench.accounts.models import Membership, User  # noqa: E402
from workbench.runs.models import Run  # noqa: E402

PASSWORD = "correct horse battery"
RUNS = 10
"""Finished runs of each organisation; one more is at work."""


def seed(organisations: int, members: int) -> list[dict[str, str]]:
    """The members: email, password, and runs and a workload of their organisation to look at."""
    password, accounts = make_password(PASSWORD), []
    for number in range(organisations):
        emails = [f"member{member}@organisation{number}.test" for member in range(members)]
        users = User.objects.bulk_create(User(email=email, password=password) for email in emails)
        organisation = services.create_organisation(f"Organisation {number}", users[0])
        rest = [Membership(user=user, organisation=organisation, role="engineer") for user in users[1:]]
        Membership.objects.bulk_create(rest)
        runs = [sample_runs.run(organisation, users[0]) for _ in range(RUNS)]
        working = sample_runs.run(organisation, users[0], state="running", upto="explore")
        lease = timezone.now() + timedelta(hours=1)
        Run.objects.filter(id=working.id).update(lease_until=lease)
        for index, user in enumerate(users):
            run = runs[index % RUNS]
            facts = {"run": str(run.id), "workload": str(run.workload_id), "open": str(working.id)}
            accounts.append(facts | {"email": user.email, "password": PASSWORD})
    return accounts


if __name__ == "__main__":
    print(json.dumps(seed(int(sys.argv[1]), int(sys.argv[2]))))
