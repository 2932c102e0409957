from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_initial"), ("intake", "0003_fill_content_digest")]

    operations = [
        migrations.AddConstraint(
            model_name="model",
            constraint=models.UniqueConstraint(
                models.F("organisation"), models.F("content_digest"), name="one_model_per_content"
            ),
        ),
        migrations.AddIndex(
            model_name="model",
            index=models.Index(fields=["organisation", "digest"], name="models_of_digest"),
        ),
    ]
