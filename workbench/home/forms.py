"""How the portfolio is filtered and sorted."""

from typing import Any

from django import forms

from workbench.home.models import SavedView
from workbench.short_text import ShortTextField

STATES = {
    "open": "Running or queued",
    "met": "Met",
    "missed": "Missed",
    "undecided": "Undecided",
    "ended": "Failed, cancelled or lost",
    "none": "No run yet",
}
SORTS = {
    "newest": "Newest run first",
    "oldest": "Oldest run first",
    "name": "By name",
    "model": "By model",
    "price": "Lowest price after first",
    "saving": "Largest saving first",
}


class FilterForm(forms.Form):
    """The filters of the portfolio, from the address. `organisations` and `choices` (`portfolio.choices`) may be
    chosen.
    """

    q = forms.CharField(label="Search", required=False, max_length=120)
    state = forms.ChoiceField(label="State", required=False, choices=[("", "Any"), *STATES.items()])
    model = forms.ChoiceField(label="Model", required=False)
    gpu = forms.ChoiceField(label="GPU", required=False)
    project = forms.ChoiceField(label="Project", required=False)
    tag = forms.ChoiceField(label="Tag", required=False)
    customer = forms.ChoiceField(label="Customer", required=False)
    sort = forms.ChoiceField(label="Sort", required=False, choices=list(SORTS.items()))
    archived = forms.BooleanField(label="Archived", required=False)

    def __init__(self, data: Any, organisations: list[Any], choices: dict[str, list[str]]) -> None:
        super().__init__(data)
        fields: dict[str, Any] = self.fields
        fields["q"].widget.attrs |= {"type": "search", "placeholder": "workload or model"}
        for name, values in choices.items():
            fields[name].choices = [("", "Any"), *((value, value) for value in values)]
            if name in ("project", "tag") and not values:
                del fields[name]
        fields["customer"].choices = [
            ("", "All"),
            *((str(organisation.pk), organisation.name) for organisation in organisations),
        ]
        if len(organisations) < 2:
            del fields["customer"]

    @property
    def chosen(self) -> dict[str, Any]:
        """The valid filters that were set; an unknown value counts as not set."""
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value}


class SavedViewForm(forms.ModelForm):
    """A name for what the list shows now."""

    name = ShortTextField(label="Save this view as", max_length=60)

    class Meta:
        model = SavedView
        fields = ("name", "query")
        widgets = {"query": forms.HiddenInput}
