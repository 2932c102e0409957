"""The form by which a bring-up is handed in."""

from django import forms


class BringUpForm(forms.Form):
    """The file that a bring-up wrote."""

    file = forms.FileField(
        label="bring-up.json",
        help_text="From the folder that python -m kernels bring-up wrote on the GPU; 768 KiB at most.",
        widget=forms.ClearableFileInput(attrs={"accept": ".json,application/json"}),
    )
