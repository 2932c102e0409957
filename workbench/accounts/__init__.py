"""People: users, organisations, roles, invitations and API tokens."""
