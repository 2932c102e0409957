"""The price book, whose table `reports_pricebookrow` the first migration of `reports` makes."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
        ("reports", "0002_price_books_move_to_prices"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="PriceBookRow",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("document", models.JSONField()),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        ("created_by", models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL)),
                        ("organisation", models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name="price_books", to="accounts.organisation")),
                    ],
                    options={"db_table": "reports_pricebookrow", "ordering": ("-created_at", "-id")},
                ),
            ]
        ),
    ]
