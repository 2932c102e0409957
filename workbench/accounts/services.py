"""Changes members, invitations and roles. Raises AccountError with one sentence and the field it belongs to."""

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.text import slugify

from workbench.accounts.models import ApiToken, Invitation, Membership, Organisation, Role, User
from workbench.accounts.secrets import keyed_digest, new_secret
from workbench.audit.models import Action
from workbench.audit.services import record


class AccountError(Exception):
    """An account cannot be changed. `sentence` says why; `field` names the input that is wrong."""

    def __init__(self, sentence: str, field: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence, self.field = sentence, field


def create_organisation(name: str, admin: User) -> Organisation:
    """A new organisation with its first admin; a taken slug gets a number."""
    base = slugify(name)[:120] or "organisation"
    slug, number = base, 1
    while Organisation.objects.filter(slug=slug).exists():
        number += 1
        slug = f"{base}-{number}"
    with transaction.atomic():
        organisation = Organisation.objects.create(name=name, slug=slug)
        Membership.objects.create(organisation=organisation, user=admin, role=Role.ADMIN)
        record(Action.ORGANISATION_CREATED, organisation, organisation, actor=admin)
    return organisation


def set_four_eyes(organisation: Organisation, required: bool) -> None:
    """Whether who freezes a report may not publish it."""
    with transaction.atomic():
        if Organisation.objects.filter(pk=organisation.pk, four_eyes=not required).update(four_eyes=required):
            record(Action.FOUR_EYES_CHANGED, organisation, organisation, after=required)


def invite(organisation: Organisation, invited_by: User, email: str, role: str) -> tuple[Invitation, str]:
    """A new invitation and the secret of its link. It replaces an open invitation of the same email address."""
    email = email.strip().lower()
    if organisation.memberships.filter(user__email=email).exists():
        raise AccountError(f"{email} is a member already.", "email")
    secret = new_secret()
    with transaction.atomic():
        organisation.invitations.filter(email=email, accepted_at=None).delete()
        invitation = Invitation.objects.create(
            organisation=organisation, email=email, role=role, digest=keyed_digest(secret), invited_by=invited_by
        )
        record(Action.MEMBER_INVITED, organisation, email, actor=invited_by, role=role)
    return invitation, secret


def withdraw(invitation: Invitation) -> None:
    """Ends an invitation that has not been accepted."""
    with transaction.atomic():
        invitation.delete()
        record(Action.INVITATION_WITHDRAWN, invitation.organisation, invitation.email)


def open_invitation(secret: str) -> Invitation | None:
    """The invitation with this secret, or None when it has ended or was accepted."""
    return (
        Invitation.objects.select_related("organisation", "invited_by")
        .filter(digest=keyed_digest(secret), accepted_at=None, expires_at__gt=timezone.now())
        .first()
    )


def accept(invitation: Invitation, user: User) -> Membership:
    """Makes the invited `user` a member. Raises AccountError for another person, or when the invitation has ended."""
    if user.email != invitation.email:
        raise AccountError(f"This invitation is for {invitation.email}, not for {user.email}.")
    with transaction.atomic():
        now = timezone.now()
        open_still = Invitation.objects.filter(pk=invitation.pk, accepted_at=None, expires_at__gt=now)
        if open_still.update(accepted_at=now) != 1:
            raise AccountError("This invitation has been used or has ended; ask for a new one.")
        membership, joined = Membership.objects.get_or_create(
            organisation=invitation.organisation, user=user, defaults={"role": invitation.role}
        )
        if joined:
            record(Action.MEMBER_JOINED, invitation.organisation, user.email, actor=user, role=invitation.role)
    return membership


def register_invited(invitation: Invitation, name: str, password: str) -> User:
    """Makes a user for the invited email address, and makes that user a member."""
    try:
        with transaction.atomic():
            user = User.objects.create_user(invitation.email, password, name=name)
            accept(invitation, user)
    except IntegrityError:
        raise AccountError(f"{invitation.email} has a login already; log in to accept.") from None
    return user


def _keep_an_admin(membership: Membership) -> None:
    """Raises AccountError when `membership` is the organisation's last admin. Locks the admins' rows."""
    admins = Membership.objects.select_for_update().filter(organisation=membership.organisation, role=Role.ADMIN)
    if {admin.pk for admin in admins} == {membership.pk}:
        raise AccountError("The last admin cannot be removed or given another role; make another member admin first.")


def change_role(membership: Membership, role: str) -> None:
    """Gives the member another role. Raises AccountError for an unknown role and for the last admin."""
    if role not in Role.values:
        raise AccountError(f"role: {role!r} is not one of {', '.join(Role.values)}.", "role")
    with transaction.atomic():
        if role != Role.ADMIN:
            _keep_an_admin(membership)
        Membership.objects.filter(pk=membership.pk).update(role=role)
        changed = {"before": membership.role, "after": role}
        record(Action.MEMBER_ROLE_CHANGED, membership.organisation, membership.user.email, **changed)


def remove(membership: Membership) -> None:
    """Ends the membership and revokes the member's tokens in this organisation."""
    with transaction.atomic():
        _keep_an_admin(membership)
        tokens = ApiToken.objects.filter(organisation=membership.organisation, user=membership.user, revoked_at=None)
        for token in tokens:
            record(Action.TOKEN_REVOKED, membership.organisation, token)
        tokens.update(revoked_at=timezone.now())
        membership.delete()
        record(Action.MEMBER_REMOVED, membership.organisation, membership.user.email, role=membership.role)
