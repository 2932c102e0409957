"""Which addresses a webhook may have: those of the public internet, and what WEBHOOK_ALLOWED_HOSTS names."""

from django.conf import settings

from workers import addresses


def parse(url: str) -> addresses.Destination:
    """Where a webhook's address points. Raises `workers.addresses.AddressRefused`."""
    return addresses.parse(url, settings.WEBHOOK_ALLOWED_HOSTS, "https://example.com/hook")
