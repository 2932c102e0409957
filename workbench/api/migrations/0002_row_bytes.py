import django.db.models.deletion
from django.db import migrations, models

import workbench.storage.row_bytes


class Migration(migrations.Migration):
    """The table is made anew: what it holds is forgotten after a day, and does not say whose it is."""

    dependencies = [
        ('accounts', '0003_four_eyes'),
        ('api', '0001_initial'),
    ]

    operations = [
        migrations.DeleteModel(name='IdempotentRequest'),
        migrations.CreateModel(
            name='IdempotentRequest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.organisation')),
                ('caller', models.CharField(max_length=80)),
                ('key', models.CharField(max_length=200)),
                ('digest', models.CharField(max_length=64)),
                ('status', models.PositiveSmallIntegerField(null=True)),
                ('content_type', models.CharField(blank=True, max_length=120)),
                ('body', models.BinaryField(default=bytes)),
                ('row_bytes', workbench.storage.row_bytes.row_bytes('body', binary=True)),
                ('created_at', models.DateTimeField(auto_now_add=True, db_index=True)),
            ],
            options={
                'indexes': [models.Index(fields=['organisation', 'row_bytes'], name='idempotent_bytes')],
                'constraints': [models.UniqueConstraint(models.F('caller'), models.F('key'), name='one_answer_per_idempotency_key')],
            },
        ),
    ]
