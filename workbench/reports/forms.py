"""Forms of the report pages."""

from django import forms


class ReviewForm(forms.Form):
    """The reviewer's note."""

    note = forms.CharField(
        label="Note to the reader",
        required=False,
        max_length=4000,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="What the reader should know: risks, next steps, what was agreed. Markdown, without images; it "
        "stands below the verdict in what the reader gets.",
    )
