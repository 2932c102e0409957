"""A database of the release in which `reports` kept the price book upgrades without losing a book."""

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from workbench.prices.models import PriceBookRow
from workers.documents.prices import default_price_book


@pytest.mark.django_db(transaction=True)
def test_a_price_book_of_an_older_database_is_still_there() -> None:
    newest = MigrationExecutor(connection).loader.graph.leaf_nodes()
    try:
        executor = MigrationExecutor(connection)
        executor.migrate([("reports", "0001_initial"), ("prices", None)])
        old = executor.loader.project_state([("reports", "0001_initial")]).apps
        kept = old.get_model("reports", "PriceBookRow").objects.create(document=default_price_book().model_dump())
    finally:
        MigrationExecutor(connection).migrate(newest)
    assert PriceBookRow.objects.get(pk=kept.pk).book == default_price_book()
