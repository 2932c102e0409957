"""Pages of errors that no view answers for."""

import sys

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from workbench import disk


def server_error(request: HttpRequest) -> HttpResponse:
    """The page of a view or a middleware that failed: 507 when the disk is full, else 500."""
    full = disk.is_full(sys.exception())
    return render(request, "507.html" if full else "500.html", status=507 if full else 500)
