"""Two organisations and their people; every test gets its own blobs and empty counters."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from workbench.accounts import services, tokens
from workbench.accounts.models import Membership, Organisation, Role, User

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def _apart(settings: Any, tmp_path: Path) -> None:
    settings.BLOBS = tmp_path / "blobs"
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    cache.clear()


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


@pytest.fixture
def api() -> Callable[..., Client]:
    """`api(user, scope="write")`: a client that sends a token of the user's first organisation."""

    def with_token(user: User, scope: str = "write") -> Client:
        membership = user.memberships.select_related("organisation").first()
        assert membership is not None
        _, secret = tokens.issue(membership.organisation, user, "test", scope)
        return Client(headers={"Authorization": f"Bearer {secret}"})

    return with_token
