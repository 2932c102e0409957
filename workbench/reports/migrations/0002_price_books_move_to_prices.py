"""The price book belongs to the application `prices` from here on; its table stays as it is."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("reports", "0001_initial")]

    operations = [
        migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel(name="PriceBookRow")]),
    ]
