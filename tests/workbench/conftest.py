"""Two organisations and their people; every test gets its own blobs and empty counters."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from scripts import make_client
from tests import sample_runs
from tests.debian import leave_out, postgres_bin
from workbench.accounts import services, tokens
from workbench.accounts.models import Membership, Organisation, Role, User
from workbench.intake import check_files
from workbench.intake.models import Workload
from workbench.intake.services import checking
from workbench.reports.models import Report
from workbench.reports.services import freeze
from workbench.runs.models import Run

PASSWORD = "correct horse battery"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests against Debian's PostgreSQL where it is not installed."""
    if not postgres_bin():
        leave_out(config, items, "test_on_postgresql.py")


@pytest.fixture(scope="session")
def client_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the Python client, generated from the committed document and importable meanwhile."""
    folder = tmp_path_factory.mktemp("client")
    make_client.generate(make_client.DOCUMENT, folder / make_client.PACKAGE.name)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(autouse=True)
def _isolated(settings: Any, tmp_path: Path) -> None:
    settings.BLOBS = tmp_path / "blobs"
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.WHITENOISE_AUTOREFRESH = True  # else each new client looks at every static file
    cache.clear()


@pytest.fixture(autouse=True)
def _checked_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uploads are checked by this process: to start another takes half a second."""

    def asked(request: str) -> bytes:
        return json.dumps({"missing": []} | check_files.answer(json.loads(request))).encode()

    monkeypatch.setattr(checking, "_run_check", asked)


@pytest.fixture
def make_user(db: None) -> Callable[..., User]:
    """`make_user("a@x.test", organisation, role)`: a user who can log in with PASSWORD."""

    def make(email: str, organisation: Organisation | None = None, role: str = Role.ENGINEER) -> User:
        user = User.objects.create_user(email, PASSWORD, name=email.split("@")[0].title())
        if organisation is not None:
            Membership.objects.create(user=user, organisation=organisation, role=role)
        return user

    return make


@pytest.fixture
def admin(make_user: Callable[..., User]) -> User:
    """The admin of `organisation`."""
    return make_user("admin@voice.test")


@pytest.fixture
def organisation(admin: User) -> Organisation:
    """The organisation that a test works in."""
    return services.create_organisation("Voice", admin)


@pytest.fixture
def engineer(make_user: Callable[..., User], organisation: Organisation) -> User:
    return make_user("engineer@voice.test", organisation, Role.ENGINEER)


@pytest.fixture
def account(make_user: Callable[..., User], organisation: Organisation) -> User:
    return make_user("account@voice.test", organisation, Role.ACCOUNT)


@pytest.fixture
def foreigner(make_user: Callable[..., User]) -> User:
    """The admin of another organisation."""
    user = make_user("admin@other.test")
    services.create_organisation("Other", user)
    return user


@pytest.fixture
def browser() -> Callable[[User], Client]:
    """`browser(user)`: a client that is logged in."""

    def log_in(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return log_in


class JsonClient(Client):
    """Posts documents as JSON, as programs do."""

    def post(self, path: str, data: Any = None, content_type: str = "application/json", **kwargs: Any) -> Any:
        return super().post(path, data, content_type, **kwargs)


@pytest.fixture
def api() -> Callable[..., JsonClient]:
    """`api(user, scope="write")`: a client that sends a token of the user's first organisation."""

    def with_token(user: User, scope: str = "write") -> JsonClient:
        membership = user.memberships.select_related("organisation").first()
        assert membership is not None
        _, secret = tokens.issue(membership.organisation, user, "test", scope)
        return JsonClient(headers={"Authorization": f"Bearer {secret}"})

    return with_token


@pytest.fixture
def workload(organisation: Organisation, engineer: User) -> Workload:
    """A workload about a model of the catalogue."""
    return sample_runs.workload(organisation, engineer)


@pytest.fixture
def done(organisation: Organisation, engineer: User) -> Run:
    """A finished run with sample results."""
    return sample_runs.run(organisation, engineer)


@pytest.fixture
def report(done: Run, engineer: User) -> Report:
    """The finished run, frozen as a draft."""
    return freeze(done, engineer)
