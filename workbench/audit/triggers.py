"""The triggers by which SQLite and PostgreSQL refuse to change or delete entries.

SQLite copies a table to change it and loses its triggers: a later migration of the table must make them again.
"""

from typing import Any

SQLITE = (
    "CREATE TRIGGER audit_entry_not_updated BEFORE UPDATE ON audit_entry "
    "BEGIN SELECT RAISE(ABORT, 'audit entries are only added'); END",
    "CREATE TRIGGER audit_entry_not_deleted BEFORE DELETE ON audit_entry "
    "BEGIN SELECT RAISE(ABORT, 'audit entries are only added'); END",
)
SQLITE_DROP = ("DROP TRIGGER audit_entry_not_updated", "DROP TRIGGER audit_entry_not_deleted")
POSTGRESQL = (
    "CREATE FUNCTION audit_entry_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'audit entries are only added'; END $$",
    "CREATE TRIGGER audit_entry_only_added BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entry "
    "FOR EACH STATEMENT EXECUTE FUNCTION audit_entry_refuse()",
)
POSTGRESQL_DROP = ("DROP TRIGGER audit_entry_only_added ON audit_entry", "DROP FUNCTION audit_entry_refuse()")


def _run(connection: Any, sqlite: tuple[str, ...], postgresql: tuple[str, ...]) -> None:
    with connection.cursor() as cursor:
        for statement in {"sqlite": sqlite, "postgresql": postgresql}[connection.vendor]:
            cursor.execute(statement)


def create(connection: Any) -> None:
    """Makes the triggers."""
    _run(connection, SQLITE, POSTGRESQL)


def drop(connection: Any) -> None:
    """Removes the triggers. Raises DatabaseError when they are not there."""
    _run(connection, SQLITE_DROP, POSTGRESQL_DROP)
