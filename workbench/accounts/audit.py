"""The filter of the audit log's page."""

from datetime import UTC, datetime, time
from typing import Any

from django import forms

from workbench.audit.models import Action, Entry, EntryQuerySet

DATE = forms.DateInput(attrs={"type": "date"})


class AuditFilter(forms.Form):
    """A filter by action, person, thing and days (UTC); an empty field filters nothing."""

    action = forms.ChoiceField(choices=[("", "Everything"), *Action.choices], required=False, label="What")
    actor = forms.CharField(max_length=254, required=False, label="By whom", help_text="Part of the email address.")
    subject = forms.CharField(max_length=200, required=False, label="To what", help_text="Part of the name, or an id.")
    since = forms.DateField(required=False, label="From", widget=DATE)
    until = forms.DateField(required=False, label="To", widget=DATE)

    def applied(self, entries: EntryQuerySet) -> EntryQuerySet:
        """The entries that a valid form leaves."""
        filters: dict[str, Any] = self.cleaned_data
        if filters["action"]:
            entries = entries.filter(action=filters["action"])
        if filters["actor"]:
            entries = entries.filter(actor_email__icontains=filters["actor"])
        if filters["subject"]:
            entries = entries.filter(subject__icontains=filters["subject"]) | entries.filter(
                subject_id=filters["subject"]
            )
        if filters["since"]:
            entries = entries.filter(at__gte=datetime.combine(filters["since"], time.min, UTC))
        if filters["until"]:
            entries = entries.filter(at__lte=datetime.combine(filters["until"], time.max, UTC))
        return entries


def exported(organisation: Any, after: int, limit: int) -> list[Entry]:
    """The organisation's entries behind the one with the id `after`, oldest first, `limit` at most."""
    return list(Entry.objects.of(organisation).filter(id__gt=after).order_by("id")[:limit])
