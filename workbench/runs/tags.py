"""The tags of runs."""

from collections.abc import Iterable

from django.db import transaction

from workbench.runs.models import Run, Tag

MAX_TAGS, LONGEST_TAG = 10, 40
"""Tags of a run, and characters of a tag."""


def set_tags(run: Run, names: Iterable[str]) -> None:
    """Puts these tags on the run, and no others. A tag goes with its last run."""
    tags_of_organisation = Tag.objects.filter(organisation=run.organisation_id)
    with transaction.atomic():
        run.tags.set(
            [tags_of_organisation.get_or_create(organisation_id=run.organisation_id, name=name)[0] for name in names]
        )
        tags_of_organisation.filter(runs=None).delete()
