"""Sends what waits, several at a time, and writes down what came of each try.

A try is claimed by moving `next_at` on: a process that dies during a try leaves a delivery that is due again, with the
same message id. So each message comes at least once. Rows are read and written by the calling thread alone; the threads
only send.
"""

import logging
import random
import smtplib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpcore
from cryptography.fernet import InvalidToken
from django.conf import settings
from django.utils import timezone

from workbench.accounts.secrets import cipher
from workbench.notifications import addresses, mail, posting, signing
from workbench.notifications.models import Delivery, Notice
from workers.shared.addresses import AddressRefused

log = logging.getLogger(__name__)

WEBHOOK_SECRETS = "workbench.notifications.webhook"
BACK_OFF = (10, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 14 * 3600)
"""Seconds to the next try after the first, the second and so on; after the last of them nothing is tried again."""
AT_ONCE = 16
CLAIM_SECONDS = 120
"""Above what a try takes, the resolver's patience included."""
GONE = 410

Send = Callable[[], "DeliveryOutcome"]


@dataclass(frozen=True)
class DeliveryOutcome:
    """What came of a try: whether it arrived, in words, and whether another try makes sense."""

    arrived: bool
    words: str
    again: bool = True


def deliver_due(seconds: float = 10.0) -> int:
    """Sends what is due, until nothing is or `seconds` are over; how many deliveries were tried."""
    tried, end = 0, time.monotonic() + seconds
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while claimed := list(_claim()):
            futures = [(delivery, pool.submit(_timed, _make_message(delivery))) for delivery in claimed]
            for delivery, future in futures:
                _keep(delivery, *future.result())
            tried += len(claimed)
            if time.monotonic() > end:
                break
    return tried


def prune() -> None:
    """Removes notices and their deliveries after EVENT_DAYS."""
    Notice.objects.filter(created_at__lt=timezone.now() - timedelta(days=settings.EVENT_DAYS)).delete()


def _claim() -> Iterator[Delivery]:
    """Deliveries that are due and were claimed here, one of each organisation after the other."""
    now = timezone.now()
    due = Delivery.objects.filter(state=Delivery.State.WAITING, next_at__lte=now)
    organisations = list(due.order_by().values_list("organisation", flat=True).distinct()[:AT_ONCE])
    for organisation in organisations:
        rows = due.filter(organisation=organisation).order_by("next_at")
        deliveries = rows.select_related("notice__organisation", "webhook", "membership__user")
        for delivery in deliveries[: AT_ONCE // len(organisations)]:
            if due.filter(pk=delivery.pk).update(next_at=now + timedelta(seconds=CLAIM_SECONDS)):
                yield delivery


def _make_message(delivery: Delivery) -> Send:
    """What `_send` makes; a message that cannot be made is given up, and holds up no other."""
    try:
        return _send(delivery)
    except Exception:
        log.exception("delivery %s cannot be made", delivery.id)
        return lambda: DeliveryOutcome(False, "The message could not be made; the sender's log says why.", again=False)


def _send(delivery: Delivery) -> Send:
    """A function without a query that sends it."""
    if delivery.webhook is None:
        message = mail.message(delivery)
        return lambda: _mail(message)
    notice, url = delivery.notice, delivery.webhook.url
    try:
        secret = cipher(WEBHOOK_SECRETS).decrypt(delivery.webhook.secret.encode()).decode()
    except InvalidToken:
        words = "The secret was made under another SECRET_KEY; remove the webhook and add it again."
        return lambda: DeliveryOutcome(False, words, again=False)
    body = notice.body
    headers = signing.headers(secret, notice.message_id, int(time.time()), body)
    return lambda: _post(url, headers, body)


def _timed(send: Send) -> tuple[DeliveryOutcome, float]:
    started = time.monotonic()
    try:
        outcome = send()
    except Exception:
        log.exception("unexpected error while sending a notice")
        outcome = DeliveryOutcome(False, "The sender failed; its log says why.")
    return outcome, time.monotonic() - started


def _post(url: str, headers: dict[str, str], body: bytes) -> DeliveryOutcome:
    try:
        status = posting.post(addresses.parse(url), headers, body)
    except AddressRefused as refused:
        return DeliveryOutcome(False, str(refused), again=False)
    except httpcore.TimeoutException:
        return DeliveryOutcome(False, f"No answer within {posting.SECONDS:.0f} seconds.")
    except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
        return DeliveryOutcome(False, f"No answer: {error}"[:300])
    words = f"Answered {status}; redirects are not followed." if 300 <= status < 400 else f"Answered {status}."
    return DeliveryOutcome(200 <= status < 300, words, again=status != GONE)


def _mail(message: Any) -> DeliveryOutcome:
    try:
        message.send()
    except (smtplib.SMTPException, OSError) as error:
        return DeliveryOutcome(False, f"The mail server took no message: {error}"[:300])
    return DeliveryOutcome(
        True, "Handed to the mail server." if settings.EMAIL_HOST else "Written into the folder mail."
    )


def _keep(delivery: Delivery, outcome: DeliveryOutcome, took: float) -> None:
    now = timezone.now()
    tries = [*delivery.tries, {"at": now.isoformat(), "words": outcome.words, "seconds": round(took, 3)}]
    changes: dict[str, Any] = {"tries": tries}
    if outcome.arrived:
        changes["state"] = Delivery.State.DELIVERED
    elif not outcome.again or len(tries) > len(BACK_OFF):
        changes["state"] = Delivery.State.GIVEN_UP
    else:
        # A tenth more or less, so that many do not come at once.
        changes["next_at"] = now + timedelta(seconds=BACK_OFF[len(tries) - 1] * random.uniform(0.9, 1.1))
    Delivery.objects.filter(pk=delivery.pk, state=Delivery.State.WAITING).update(**changes)
    if not outcome.arrived:
        log.info("delivery %s, try %s: %s", delivery.id, len(tries), outcome.words)
