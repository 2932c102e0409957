"""`Idempotency-Key`: a POST that is sent twice is carried out once, and answered twice."""

import hashlib
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from workbench.api.in_flight import try_lock
from workbench.api.models import IdempotentRequest
from workbench.api.problems import respond
from workbench.api.quota import check_bytes
from workbench.api.sentences import Problem
from workbench.serving.body_limits import API
from workbench.web.middleware import Middleware

KEPT = timedelta(hours=24)
NOT_CARRIED_OUT = {401, 403, 408, 409, 413, 429}
"""Answers of these statuses are not kept, since the request was not carried out and may be tried again."""
SECRET = "This request was carried out before; its answer held a secret, which is not kept and not given again."
"""What a repeated request is told where the first answer forbade storing it."""


def _caller(request: Any) -> str:
    """The token or the person; empty for who may not call, since nothing is kept for them."""
    if request.api_token is not None:
        return f"token:{request.api_token.pk}"
    return f"user:{request.user.pk}" if request.organisation is not None else ""


class IdempotencyMiddleware(Middleware):
    """Keeps the answers of POSTs under /api/ that carry an Idempotency-Key, per caller, for a day.

    The same key with another body is a 409, and so is one whose first request has not been answered yet. The answers
    count among what the organisation keeps, and no more are kept than its quota allows.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        key = request.headers.get("Idempotency-Key", "")
        if not (key and request.method == "POST" and request.path.startswith(API)):
            return self.get_response(request)
        if len(key) > 200:
            return respond(422, "Idempotency-Key: is longer than 200 characters")
        caller = _caller(request)
        return self._once(request, caller, key) if caller else self.get_response(request)

    def _once(self, request: HttpRequest, caller: str, key: str) -> HttpResponse:
        address = f"{request.method} {request.get_full_path()}\n".encode()
        digest = hashlib.sha256(address + request.body).hexdigest()
        rows = IdempotentRequest.objects.filter(caller=caller)
        rows.filter(created_at__lt=timezone.now() - KEPT).delete()
        row = rows.filter(key=key).exclude(status=None).first()
        if row is not None:
            return self._again(row, digest)
        with try_lock(f"{caller} {key}") as free:
            if not free:
                early = respond(409, "The first request with this Idempotency-Key is still being answered; try again.")
                early["Retry-After"] = "1"
                return early
            row = rows.filter(key=key).first()
            if row is not None and row.status is not None:
                return self._again(row, digest)
            if row is not None:
                row.delete()  # the process that was to answer it has ended
            organisation = request.organisation  # type: ignore[attr-defined]
            try:
                check_bytes(organisation)
            except Problem:
                return self.get_response(request)  # what keeps more refuses it; its answer is not kept
            return self._keep(
                request, IdempotentRequest(organisation=organisation, caller=caller, key=key, digest=digest)
            )

    @staticmethod
    def _again(row: IdempotentRequest, digest: str) -> HttpResponse:
        if row.digest != digest:
            return respond(409, "This Idempotency-Key was used for another request; send a new key.")
        response = HttpResponse(bytes(row.body), status=row.status, content_type=row.content_type)
        response["Idempotency-Replayed"] = "true"
        return response

    def _keep(self, request: HttpRequest, row: IdempotentRequest) -> HttpResponse:
        """Answer, and keep the answer. What the request does and its answer are stored together, or neither is."""
        with transaction.atomic():
            row.save()
            response = self.get_response(request)
            if response.status_code >= 500:
                transaction.set_rollback(True)
            else:
                _store(row, response)
        return response


def _store(row: IdempotentRequest, response: HttpResponse) -> None:
    """Keep the answer in the row, or delete the row when the request may be tried again."""
    if response.streaming or response.status_code in NOT_CARRIED_OUT:
        row.delete()
        return
    stored = respond(409, SECRET) if "no-store" in response.headers.get("Cache-Control", "") else response
    row.status, row.body = stored.status_code, stored.content
    row.content_type = stored.headers.get("Content-Type", "")
    row.save(update_fields=["status", "body", "content_type"])
