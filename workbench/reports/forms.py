"""Forms of the report pages."""

from django import forms

from workbench.reports.schemas import MAX_NOTE_LENGTH


class ReviewForm(forms.Form):
    """The reviewer's note, and whom the report is for."""

    customer = forms.CharField(
        label="Customer",
        required=False,
        max_length=120,
        help_text="Whom the report is for, as it names them. Empty: the organisation.",
    )
    note = forms.CharField(
        label="Note to the reader",
        required=False,
        max_length=MAX_NOTE_LENGTH,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="What the reader should know: risks, next steps, what was agreed. Markdown, without images; it "
        "stands below the verdict in what the reader gets.",
    )


class ShareForm(forms.Form):
    """How long a link works, and a password where it shall have one."""

    days = forms.TypedChoiceField(
        label="Works for", choices=((7, "7 days"), (30, "30 days"), (90, "90 days")), coerce=int, initial=30
    )
    password = forms.CharField(
        label="Password",
        required=False,
        strip=False,
        min_length=8,
        max_length=200,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="Optional, at least 8 characters. Send it by another way than the link.",
    )


class LogoForm(forms.Form):
    """A picture that reports carry."""

    picture = forms.FileField(
        label="Picture",
        widget=forms.ClearableFileInput(attrs={"accept": "image/png,image/jpeg,image/webp"}),
        help_text="PNG, JPEG or WebP, 512 KiB and 4,000 pixels a side at most. It is drawn anew, at most 480 × 160.",
    )


class OpenForm(forms.Form):
    """The password of a link."""

    password = forms.CharField(
        strip=False, max_length=200, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )
