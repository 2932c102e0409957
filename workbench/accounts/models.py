"""Users, the organisations they belong to, and the tokens that act for them."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, BaseUserManager
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone

from workbench.accounts.querysets import OrganisationRecord


class UserManager(BaseUserManager["User"]):
    """Makes users; emails are kept in lower case, so that one address is one login."""

    def create_user(self, email: str, password: str | None = None, **fields: Any) -> "User":
        """A user with `password`, or one that cannot log in without it. Raises ValueError without an email."""
        if not email:
            raise ValueError("email: a user needs an email address")
        user = self.model(email=email.strip().lower(), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def get_by_natural_key(self, username: str | None) -> "User":
        return self.get(email=(username or "").strip().lower())


class User(AbstractBaseUser):
    """A person, who logs in by email."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    email = models.EmailField(unique=True)
    name = models.CharField(max_length=120, blank=True)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    objects = UserManager()

    acting_for: "Organisation | None" = None
    """The organisation of this request. The middleware sets it; it is not a column."""

    def __str__(self) -> str:
        return self.name or self.email


class Organisation(models.Model):
    """A customer. What its members hand in belongs to it, and only its members see it.

    `four_eyes`: who freezes a report does not publish it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=120)
    slug = models.SlugField(max_length=140, unique=True)
    four_eyes = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    """A member's role: engineers submit, accounts review and publish, admins do both and manage members."""

    ENGINEER = "engineer", "Engineer"
    ACCOUNT = "account", "Account"
    ADMIN = "admin", "Admin"


class Membership(OrganisationRecord):
    """A user's role in an organisation. `start_hidden`: the list of first steps is closed."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    organisation = models.ForeignKey(Organisation, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.ENGINEER)
    inbox_read_at = models.DateTimeField(null=True)
    start_hidden = models.BooleanField(default=False)

    class Meta:
        ordering = ("created_at",)
        constraints = (models.UniqueConstraint("user", "organisation", name="one_membership_each"),)

    def __str__(self) -> str:
        return f"{self.user} ({self.role})"


def _invitation_end() -> datetime:
    return timezone.now() + timedelta(days=settings.INVITATION_DAYS)


class Invitation(OrganisationRecord):
    """A one-time link by which an email address joins an organisation; only the keyed hash of its secret is kept."""

    organisation = models.ForeignKey(Organisation, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField()
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.ENGINEER)
    digest = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True)
    expires_at = models.DateTimeField(default=_invitation_end)
    accepted_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-created_at",)
        constraints = (
            models.UniqueConstraint(
                "organisation", Lower("email"), condition=models.Q(accepted_at=None), name="one_open_invitation_each"
            ),
        )

    def __str__(self) -> str:
        return f"{self.email} to {self.organisation}"


class ApiToken(OrganisationRecord):
    """A token for automation. People know it by its `prefix`; `digest` is the keyed hash of the whole token."""

    class Scope(models.TextChoices):
        READ = "read", "Read"
        WRITE = "write", "Read and write"

    organisation = models.ForeignKey(Organisation, on_delete=models.CASCADE, related_name="tokens")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    scope = models.CharField(max_length=5, choices=Scope.choices, default=Scope.READ)
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    issued_by = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="issued")

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def expired(self) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= timezone.now()
