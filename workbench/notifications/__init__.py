"""Notifications: what happened in an organisation, sent to its webhooks and by e-mail to members who want it."""
