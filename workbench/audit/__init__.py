"""The audit log: who did what, in rows that are only added."""
