"""Writes notices. A notice and its deliveries are rows of the transaction in which the thing happens.

So a process that dies loses none: either both are there, or neither. `delivering.py` sends them later.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.utils import timezone

from workbench.api.sentences import Problem
from workbench.notifications.models import Delivery, Kind, Notice, Subscription, Webhook

MAX_TESTS = 5
"""The most tests an hour to one person or webhook."""


SUPPRESSED_BY = {Kind.RUN_MISSED: Kind.RUN_FINISHED}
"""A member who gets the value by e-mail is not told the key, which says the same."""


def announce(
    organisation_id: Any, kind: Kind, data: Callable[[], dict[str, Any]], member: Any = None, alone: bool = False
) -> None:
    """Tells the inbox, and every webhook and member of the organisation that asked for `kind`.

    `data` makes the JSON of the message. `member` is the id of the membership that it concerns, whose inbox alone has
    it; with `alone` nobody else is told by e-mail or webhook either.
    """
    webhooks = [webhook for webhook in Webhook.objects.filter(organisation=organisation_id) if kind in webhook.kinds]
    subscriptions = Subscription.objects.filter(membership__organisation=organisation_id)
    members = [
        subscription.membership_id
        for subscription in subscriptions
        if kind in subscription.kinds and SUPPRESSED_BY.get(kind, "") not in subscription.kinds
    ]
    if alone:
        webhooks, members = [], [candidate for candidate in members if candidate == member]
    if webhooks or members or kind not in SUPPRESSED_BY:
        hooks = [{"webhook": webhook} for webhook in webhooks]
        _write(Notice(organisation_id=organisation_id, kind=kind, data=data(), member_id=member), hooks, members)


def _write(notice: Notice, hooks: list[Any], members: list[Any]) -> None:
    notice.save()
    recipients = [*hooks, *({"membership_id": member} for member in members)]
    Delivery.objects.bulk_create(
        Delivery(notice=notice, organisation_id=notice.organisation_id, **recipient) for recipient in recipients
    )


def again(delivery: Delivery) -> None:
    """One more try of a delivery that was given up; its id and its body stay."""
    Delivery.objects.filter(pk=delivery.pk, state=Delivery.State.GIVEN_UP).update(
        state=Delivery.State.WAITING, next_at=timezone.now()
    )


def send_test_webhook(webhook: Webhook) -> None:
    """A message of the kind `test` to one webhook. Raises Problem 429."""
    _check_tests(webhook=webhook)
    _write(Notice(organisation_id=webhook.organisation_id, kind=Kind.TEST), [{"webhook": webhook}], [])


def send_test_mail(membership: Any) -> None:
    """A message of the kind `test` to one member. Raises Problem 429."""
    _check_tests(membership__user=membership.user_id)
    _write(Notice(organisation_id=membership.organisation_id, kind=Kind.TEST), [], [membership.pk])


def _check_tests(**place: Any) -> None:
    since = timezone.now() - timedelta(hours=1)
    if Delivery.objects.filter(notice__kind=Kind.TEST, notice__created_at__gt=since, **place).count() >= MAX_TESTS:
        raise Problem(429, f"{MAX_TESTS} tests were sent there within an hour; try again later.")
