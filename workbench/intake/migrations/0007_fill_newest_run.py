"""Names the newest run of every workload beside it."""

from django.db import migrations
from django.db.models import OuterRef, Subquery


def fill(apps, schema_editor):
    runs = apps.get_model("runs", "Run").objects.filter(workload=OuterRef("pk")).order_by("-created_at")
    apps.get_model("intake", "Workload").objects.update(newest_run=Subquery(runs.values("pk")[:1]))


class Migration(migrations.Migration):
    dependencies = [("intake", "0006_workload_newest_run_archived_at")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
