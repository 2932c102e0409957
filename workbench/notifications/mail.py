"""A notice as an e-mail to one member."""

from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.core import signing
from django.core.mail import EmailMessage
from django.urls import reverse

from workbench.notifications.models import Delivery, Kind, Notice

SALT = "workbench.notifications.unsubscribe"


def unsubscribe_address(membership_id: Any) -> str:
    """The address that ends all e-mail about one organisation to one member. It works without a login, for ever."""
    return settings.PUBLIC_URL + reverse("unsubscribe", args=[signing.dumps(str(membership_id), salt=SALT)])


def unsubscribed(token: str) -> UUID | None:
    """The id of the membership that an unsubscribe address is about; None when it was not made here."""
    try:
        return UUID(signing.loads(token, salt=SALT))
    except signing.BadSignature:
        return None


def message(delivery: Delivery) -> EmailMessage:
    """The e-mail of a delivery to a member. Every try has the same Message-ID."""
    notice, address = delivery.notice, unsubscribe_address(delivery.membership_id)
    subject, lines = words(notice)
    lines += ["", "--", f"You chose this e-mail about {notice.organisation.name}. To get none: {address}"]
    return EmailMessage(
        subject=" ".join(f"{subject} · Kernel Workbench".split()),
        body="\n".join(lines) + "\n",
        to=[delivery.to],
        headers={
            "Message-ID": f"<{delivery.id.hex}@{urlsplit(settings.PUBLIC_URL).hostname}>",
            "Auto-Submitted": "auto-generated",
            "List-Unsubscribe": f"<{address}>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        },
    )


def words(notice: Notice) -> tuple[str, list[str]]:
    """Subject and lines of a notice."""
    data = notice.data
    match notice.kind:
        case Kind.RUN_FINISHED | Kind.RUN_MISSED:
            run = data["run"]
            ending = run["verdict_words"] or f"Run {run['state']}"
            return f"{ending}: {run['workload']}", [
                f"{run['workload']} on {run['model']}, GPU class {run['gpu_class']}.",
                run["sentence"],
                "",
                run["url"],
            ]
        case Kind.REPORT_READY | Kind.REPORT_PUBLISHED:
            report = data["report"]
            ready = notice.kind == Kind.REPORT_READY
            subject = "To review" if ready else "Published"
            sentence = "The report was frozen and waits for its review." if ready else "The report has been published."
            return f"{subject}: {report['title']}", [report["title"], sentence, "", report["url"]]
        case Kind.MENTIONED:
            comment = data["comment"]
            return f"{comment['author']} mentions you: {comment['title']}", [comment["text"], "", comment["url"]]
        case _:
            return "A test", ["You asked for this test. E-mail from the workbench reaches you."]
