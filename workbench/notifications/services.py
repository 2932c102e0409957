"""Adds and removes webhooks, and keeps what members want by e-mail."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import transaction

from workbench.accounts.models import Membership, Organisation
from workbench.accounts.secrets import cipher
from workbench.api.sentences import Problem
from workbench.audit.models import Action
from workbench.audit.services import record
from workbench.notifications import addresses, signing
from workbench.notifications.delivering import WEBHOOK_SECRETS
from workbench.notifications.models import CHOOSABLE, Subscription, Webhook
from workers.shared.addresses import AddressRefused

MAX_WEBHOOKS = 20


class NotificationError(Problem):
    """A webhook cannot be added; the message is a sentence, `field` the input that it is about."""

    def __init__(self, sentence: str, field: str | None = None) -> None:
        super().__init__(422, sentence, [{"field": field or "url", "reason": sentence}])
        self.field = field


def add(organisation: Organisation, user: Any, url: str, kinds: Iterable[str]) -> tuple[Webhook, str]:
    """A webhook, and its secret, which is shown once and kept encrypted. Raises NotificationError."""
    try:
        addresses.parse(url)
    except AddressRefused as refused:
        raise NotificationError(str(refused), "url") from refused
    if organisation.webhooks.count() >= MAX_WEBHOOKS:
        raise NotificationError(f"The organisation has {MAX_WEBHOOKS} webhooks; remove one that is not needed.")
    secret = signing.new_secret()
    with transaction.atomic():
        webhook = Webhook.objects.create(
            organisation=organisation,
            url=url,
            kinds=_choosable(kinds),
            secret=cipher(WEBHOOK_SECRETS).encrypt(secret.encode()).decode(),
            created_by=user,
        )
        record(Action.WEBHOOK_ADDED, organisation, webhook, actor=user, kinds=webhook.kinds)
    return webhook, secret


def remove(webhook: Webhook) -> None:
    """Ends a webhook; what waits for it and its log go with it."""
    with transaction.atomic():
        record(Action.WEBHOOK_REMOVED, webhook.organisation, webhook)
        webhook.delete()


def choose(membership: Membership, kinds: Iterable[str]) -> None:
    """What a member gets by e-mail from now on."""
    Subscription.objects.update_or_create(membership=membership, defaults={"kinds": _choosable(kinds)})


def chosen(membership: Membership) -> list[str]:
    """What a member gets by e-mail."""
    subscription = Subscription.objects.filter(membership=membership).first()
    return list(subscription.kinds) if subscription else []


def unsubscribe(membership_id: UUID) -> None:
    """Ends all e-mail to this member; harmless when there is none."""
    Subscription.objects.filter(membership=membership_id).update(kinds=[])


def _choosable(kinds: Iterable[str]) -> list[str]:
    names = set(kinds)
    return [str(kind) for kind, _ in CHOOSABLE if kind in names]
