from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("intake", "0001_initial")]

    operations = [
        migrations.RemoveConstraint(model_name="model", name="one_model_per_digest"),
        migrations.RemoveIndex(model_name="model", name="model_digest"),
        migrations.AddField(
            model_name="model",
            name="content_digest",
            field=models.CharField(default="", max_length=64),
            preserve_default=False,
        ),
    ]
