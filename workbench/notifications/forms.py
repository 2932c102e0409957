"""Forms of the page of notifications."""

from django import forms

from workbench.notifications.models import CHOOSABLE, POSTED


class MailForm(forms.Form):
    """What a member gets by e-mail."""

    kinds = forms.MultipleChoiceField(
        choices=CHOOSABLE,
        required=False,
        label="Write to me when",
        widget=forms.CheckboxSelectMultiple(attrs={"id": "id_mail_kinds"}),  # the other form stands on the same page
    )


class WebhookForm(forms.Form):
    """A webhook's address and the kinds of its messages."""

    url = forms.CharField(
        label="Address",
        max_length=500,
        widget=forms.URLInput(attrs={"placeholder": "https://"}),
        help_text="It is posted to over HTTPS; addresses inside a network are refused.",
    )
    kinds = forms.MultipleChoiceField(
        choices=POSTED, label="Post when", initial=[kind for kind, _ in POSTED], widget=forms.CheckboxSelectMultiple
    )
