import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("intake", "0005_no_upload_state"),
        ("runs", "0002_organisation_artifacts"),
    ]

    operations = [
        migrations.AddField("workload", "archived_at", models.DateTimeField(null=True)),
        migrations.AddField(
            "workload",
            "newest_run",
            models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="runs.run"
            ),
        ),
    ]
