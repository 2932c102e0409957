"""Which addresses a webhook may have: those of the public internet, and what WEBHOOK_ALLOWED_HOSTS names."""

from django.conf import settings

from workers.shared import addresses


def parse(url: str) -> addresses.Destination:
    """Where a webhook's address points. Raises `workers.shared.addresses.AddressRefused`."""
    return addresses.parse(url, settings.WEBHOOK_ALLOWED_HOSTS, "https://example.com/hook")
