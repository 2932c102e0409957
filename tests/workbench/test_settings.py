"""The one settings file: safe defaults, what the environment changes, and a Redis that is down or takes no answer."""

import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from django.core.cache import caches
from django.core.exceptions import ImproperlyConfigured

import workbench
from tests.programs import ROOT
from tests.redis_settings import redis_settings, running_redis
from workbench import broker
from workbench.runs import services
from workbench.runs.models import Run
from workbench.storage.secret_files import kept_secret
from workbench.web import cache
from workbench.web.cache import ForgivingRedisCache

FILE = Path(workbench.__file__).with_name("settings.py")


def _settings(data: Path, *names: str, **environment: str) -> dict[str, Any]:
    """What the file makes of this environment alone."""
    env = {"PATH": os.environ["PATH"], "WORKBENCH_DATA": str(data)} | environment
    with patch.dict(os.environ, env, clear=True):
        result = runpy.run_path(str(FILE))
    return {name: result[name] for name in names}


def test_without_an_environment_it_is_safe_and_needs_no_server(tmp_path):
    result = _settings(tmp_path, "DEBUG", "DATABASES", "SECRET_KEY", "WORKER_TOKEN", "ALLOWED_HOSTS")
    database = result["DATABASES"]["default"]
    assert result["DEBUG"] is False
    assert database["ENGINE"] == "django.db.backends.sqlite3"
    assert database["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert database["OPTIONS"]["timeout"] == 20
    assert "WAL" in database["OPTIONS"]["init_command"]
    assert set(result["ALLOWED_HOSTS"]) == {"localhost", "127.0.0.1", "[::1]"}
    assert len(result["SECRET_KEY"]) >= 50
    assert result["SECRET_KEY"] != result["WORKER_TOKEN"]
    again = _settings(tmp_path, "SECRET_KEY", "WORKER_TOKEN")
    assert again == {name: result[name] for name in again}


def test_https_closes_what_http_leaves_open_and_servers_come_from_their_urls(tmp_path):
    names = ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_HSTS_SECONDS", "SECURE_SSL_REDIRECT")
    assert not any(_settings(tmp_path, *names).values())
    site = {"PUBLIC_URL": "https://workbench.example:8443", "ALLOWED_HOSTS": "old.example"}
    assert all(_settings(tmp_path, *names, **site).values())
    assert set(_settings(tmp_path, "ALLOWED_HOSTS", **site)["ALLOWED_HOSTS"]) >= {"workbench.example", "old.example"}
    result = _settings(
        tmp_path,
        "DATABASES",
        "CACHES",
        DATABASE_URL="postgres://u:p@db:5432/w",
        REDIS_URL="redis://ledger:a@r:6379/1",
        GPU_REDIS_URL="redis://ledger:a@r:6379/0",
        CACHE_URL="redis://cache:b@r:6379/2",
    )
    assert result["DATABASES"]["default"]["ENGINE"] == "django.db.backends.postgresql"
    assert result["DATABASES"]["default"]["HOST"] == "db"
    assert result["CACHES"]["default"]["BACKEND"] == "workbench.web.cache.ForgivingRedisCache"
    assert result["CACHES"]["default"]["LOCATION"] == "redis://cache:b@r:6379/2"


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"REDIS_URL": "redis://r:6379/0"}, "REDIS_URL is set without GPU_REDIS_URL or CACHE_URL"),
        ({"EMAIL_SECURITY": "ssl"}, "not starttls, tls or none"),
    ],
)
def test_one_address_of_redis_for_all_roles_and_mail_in_the_clear_are_refused(tmp_path, environment, reason):
    with pytest.raises(ImproperlyConfigured, match=reason):
        _settings(tmp_path, **environment)


@pytest.mark.parametrize(("before", "after"), [(None, 0o700), (0o755, 0o750), (0o700, 0o700), (0o2770, 0o2770)])
def test_the_data_directory_and_its_secrets_are_closed_to_others(tmp_path, before, after):
    data = tmp_path / "data"
    if before is not None:
        data.mkdir()
        data.chmod(before)
    _settings(data)
    assert data.stat().st_mode & 0o7777 == after
    assert {(data / name).stat().st_mode & 0o777 for name in ("secret_key", "worker_token")} == {0o600}


def test_no_gunicorn_opens_a_control_socket():
    """The socket of all gunicorns of a user lies at one address; who reaches it commands them."""
    for place in ("Dockerfile", "workbench/embedded/stack.py"):
        assert "--no-control-socket" in (ROOT / place).read_text()


def test_processes_that_start_together_agree_on_a_secret(tmp_path):
    imports = "import sys, pathlib; from workbench.storage.secret_files import kept_secret"
    code = f"{imports}; print(kept_secret(pathlib.Path(sys.argv[1])))"
    racing = [
        subprocess.Popen([sys.executable, "-c", code, tmp_path / "new" / "secret"], stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    assert len({process.communicate()[0] for process in racing}) == 1
    assert kept_secret(tmp_path / "new" / "secret")


def test_a_redis_that_is_down_does_not_take_the_site_with_it(settings):

    cache = ForgivingRedisCache("redis://127.0.0.1:9/0", {})
    cache.set("a", 1)
    assert cache.get("a", "nothing") == "nothing"
    assert cache.add("b", 0)
    assert cache.incr("b") == 1
    assert cache.delete("b") is False


@pytest.fixture
def freeze(tmp_path, settings):
    """`freeze()` stops the site's Redis in its tracks."""
    with running_redis(tmp_path) as (port, process):
        for name, url in redis_settings(port).items():
            setattr(settings, name, url)
        settings.CACHES = {
            "default": {"BACKEND": "workbench.web.cache.ForgivingRedisCache", "LOCATION": settings.CACHE_URL}
        }
        broker._sender_at.cache_clear()
        caches["default"].set("asked", "before", 60)
        assert caches["default"].get("asked") == "before"
        yield lambda: process.send_signal(signal.SIGSTOP)
    broker._sender_at.cache_clear()


@pytest.mark.django_db(transaction=True)
def test_it_delays_the_first_request_and_no_other(freeze, api, engineer, caplog):
    client = api(engineer)
    assert client.get("/api/v1/runs").status_code == 200
    freeze()
    begun = time.monotonic()
    for _ in range(8):
        assert client.get("/api/v1/runs").status_code == 200
    rests = (time.monotonic() - begun) / cache.REST_SECONDS
    assert 1 <= caplog.text.count("Redis does not answer") <= 1 + rests, "each of them asks Redis twice"


@pytest.mark.django_db(transaction=True)
def test_a_run_is_taken_and_waits_for_the_sweep(freeze, workload, engineer, caplog):
    freeze()
    begun = time.monotonic()
    run = services.create_run(workload, engineer)
    assert time.monotonic() - begun < 10 * broker.PATIENCE_SECONDS
    assert Run.objects.get(pk=run.pk).published_at is None
    assert "waits for the sweep" in caplog.text
