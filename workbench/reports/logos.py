"""A customer's logo, drawn anew from what was uploaded, so that nothing of the file itself reaches a report."""

import base64
import io
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from PIL import Image, UnidentifiedImageError

from workbench.accounts.models import Organisation
from workbench.audit.models import Action
from workbench.audit.services import record
from workbench.reports.models import Logo

FORMATS = ("PNG", "JPEG", "WEBP")
MAX_BYTES = 512 * 1024
MAX_PIXELS = 4000
"""The most pixels of each side, so that a small file cannot ask for much memory."""
DRAWN = (480, 160)
"""The most that is kept, in pixels: three times what a report shows."""
START = "data:image/png;base64,"


class LogoError(Exception):
    """The file cannot be a logo; the message is a sentence."""


def keep(organisation: Organisation, file: UploadedFile, user: Any) -> None:
    """The organisation's logo from now on. Reports that are frozen already keep theirs. Raises LogoError."""
    image = draw(file)
    with transaction.atomic():
        Logo.objects.update_or_create(organisation=organisation, defaults={"image": image})
        record(Action.LOGO_CHANGED, organisation, organisation, actor=user)


def remove(organisation: Organisation, user: Any) -> None:
    """The organisation has no logo from now on."""
    with transaction.atomic():
        if Logo.objects.filter(organisation=organisation).delete()[0]:
            record(Action.LOGO_REMOVED, organisation, organisation, actor=user)


def of(organisation: Organisation) -> str:
    """The logo as a data URI of a PNG; empty where there is none."""
    return Logo.objects.filter(organisation=organisation).values_list("image", flat=True).first() or ""


def draw(file: UploadedFile) -> str:
    """A data URI of a PNG with the picture's pixels alone, made smaller where it is large. Raises LogoError."""
    if (file.size or 0) > MAX_BYTES:
        raise LogoError(f"The file has {file.size:,} bytes; a logo may have {MAX_BYTES:,}.")
    try:
        with Image.open(file, formats=FORMATS) as picture:
            width, height = picture.size
            if max(width, height) > MAX_PIXELS:
                raise LogoError(f"The picture has {width:,} × {height:,} pixels; {MAX_PIXELS:,} a side are allowed.")
            drawn = picture.convert("RGBA")
    except UnidentifiedImageError:
        raise LogoError("The file is no PNG, JPEG or WebP picture.") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        raise LogoError("The picture is damaged and cannot be read.") from None
    drawn.thumbnail(DRAWN, Image.Resampling.LANCZOS)
    png = io.BytesIO()
    drawn.save(png, "PNG", optimize=True)
    return START + base64.b64encode(png.getvalue()).decode()
