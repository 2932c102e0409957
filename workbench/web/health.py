"""`/healthz` and `/readyz`, answered before redirects, host checks and logins, so that any probe can ask."""

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse

from workbench.web.middleware import Middleware


class HealthMiddleware(Middleware):
    """`/healthz`: the process answers. `/readyz`: the database and Redis answer it as well, or 503 and which do not."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info == "/healthz":
            return _plain("ok")
        if request.path_info == "/readyz":
            silent = [name for name, answers in CHECKS.items() if not answers()]
            return _plain(f"not ready: no answer from {', '.join(silent)}", 503) if silent else _plain("ready")
        return self.get_response(request)


def _plain(text: str, status: int = 200) -> HttpResponse:
    return HttpResponse(f"{text}\n", status=status, content_type="text/plain", headers={"Cache-Control": "no-store"})


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def _redis_answers() -> bool:
    try:
        for url in filter(None, (settings.REDIS_URL, settings.GPU_REDIS_URL, settings.CACHE_URL)):
            with redis.Redis.from_url(url, socket_connect_timeout=1, socket_timeout=1) as client:
                client.ping()
    except redis.RedisError:
        return False
    return True


CHECKS = {"the database": _database_answers, "Redis": _redis_answers}
