"""Rows that have had their time: progress of runs long over, tokens and sessions that ended, answers that were kept."""

from datetime import timedelta
from importlib import import_module

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from workbench.accounts.models import ApiToken
from workbench.api.idempotency import KEPT
from workbench.api.models import IdempotentRequest
from workbench.runs.models import Event


def prune() -> None:
    """Removes them. Of a run's events only what its stages said while they ran goes; its transitions stay."""
    now = timezone.now()
    over = now - timedelta(days=settings.EVENT_DAYS)
    ApiToken.objects.filter(Q(revoked_at__lt=over) | Q(expires_at__lt=over)).delete()
    Event.objects.filter(kind="progress", run__finished_at__lt=over).delete()
    IdempotentRequest.objects.filter(created_at__lt=now - KEPT).delete()
    import_module(settings.SESSION_ENGINE).SessionStore.clear_expired()
