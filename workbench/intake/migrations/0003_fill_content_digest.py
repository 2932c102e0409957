"""Gives every model its content digest, and a model digest by today's rule."""

from django.db import migrations

from kernels.model_files.digests import content_digest, model_digest


def fill(apps, schema_editor):
    """A row without files, or whose manifest lacks a configuration, keeps the digest that it has."""
    for model in apps.get_model("intake", "Model").objects.iterator():
        hashes = list(model.files.values_list("path", "sha256"))
        model.content_digest = content_digest(hashes) if hashes else model.digest
        manifest = model.manifest if isinstance(model.manifest, dict) else {}
        config, generated, seed = (manifest.get(key) for key in ("config", "generated", "seed"))
        if hashes and isinstance(config, dict) and isinstance(generated, bool):
            model.digest = model_digest(config, hashes, generated, seed or 0)
        if manifest:
            model.manifest = manifest | {"digest": model.digest, "content_digest": model.content_digest}
        model.save(update_fields=["digest", "content_digest", "manifest"])


class Migration(migrations.Migration):
    dependencies = [("intake", "0002_content_digest")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
