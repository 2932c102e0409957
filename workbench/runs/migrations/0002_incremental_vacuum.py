from django.db import migrations


def set_incremental(apps, editor):
    """SQLite takes the setting for a database with tables when it writes the file anew."""
    if editor.connection.vendor == "sqlite":
        with editor.connection.cursor() as cursor:
            cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
            cursor.execute("VACUUM")


class Migration(migrations.Migration):
    """The sweep can give back to the disk what deleted rows took (`workbench/storage/disk.py`)."""

    atomic = False

    dependencies = [
        ('runs', '0001_initial'),
    ]

    operations = [
        migrations.RunPython(set_incremental, migrations.RunPython.noop),
    ]
