"""How many bytes a row takes in the database, in a column that the database itself computes."""

from typing import Any

from django.db import models
from django.db.models.functions import Cast

FIXED = 512
"""Bytes that a row counts beside its long columns: its short ones, and its places in the indexes."""


class Bytes(models.Func):
    """The bytes of a text or of binary data as they are stored; 0 for NULL."""

    template = "COALESCE(OCTET_LENGTH(%(expressions)s), 0)"
    output_field = models.BigIntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **options: Any) -> Any:
        """`OCTET_LENGTH` came with SQLite 3.43."""
        template = "COALESCE(LENGTH(CAST(%(expressions)s AS BLOB)), 0)"
        return super().as_sql(compiler, connection, template=template, **options)


def row_bytes(*columns: str, binary: bool = False) -> models.GeneratedField:
    """The column `row_bytes` of a model whose `columns` are as long as a member makes them.

    `api/quota.py` sums it over the rows of an organisation: give it an index behind the organisation.
    """
    size: Any = models.Value(FIXED)
    for column in columns:
        size = size + Bytes(column if binary else Cast(column, models.TextField()))
    return models.GeneratedField(expression=size, output_field=models.BigIntegerField(), db_persist=True)
