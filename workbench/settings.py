"""Every setting of the web process, read from the environment; the defaults serve one machine without a server.

A setting that is read here is also passed on in docker-compose.yml and explained in .env.example.
"""

import gc
import importlib.util
import os
import shlex
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from workbench.storage.secret_files import kept_secret, own_folder
from workers.shared import logs

env = environ.Env()
BASE_DIR = Path(__file__).resolve().parent.parent
gc.set_threshold(20_000, 20, 50)
"""With CPython's own, searches for cyclic garbage take a tenth of a process's start, and one of all objects holds a
request up for a tenth of a second."""

# Where things lie
WORKBENCH_DATA = Path(env("WORKBENCH_DATA", default="") or BASE_DIR / "var").resolve()
BLOBS = WORKBENCH_DATA / "blobs"
own_folder(WORKBENCH_DATA)

# Secrets
SECRET_KEY = env("SECRET_KEY", default="") or kept_secret(WORKBENCH_DATA / "secret_key")
WORKER_TOKEN = env("WORKER_TOKEN", default="") or kept_secret(WORKBENCH_DATA / "worker_token")

# Where people reach the workbench
PUBLIC_URL = env("PUBLIC_URL", default="http://127.0.0.1:8000").rstrip("/")
HTTPS = urlsplit(PUBLIC_URL).scheme == "https"
PUBLIC_HOST = urlsplit(PUBLIC_URL).hostname or "localhost"
DEBUG = env.bool("DEBUG", default=False)
ALLOWED_HOSTS = [PUBLIC_HOST, "localhost", "127.0.0.1", "[::1]", *env.list("ALLOWED_HOSTS", default=[])]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth.account",
    "allauth.mfa",
    "django_htmx",
    "workbench.audit",
    "workbench.accounts",
    "workbench.api",
    "workbench.intake",
    "workbench.prices",
    "workbench.notifications",
    "workbench.runs",
    "workbench.results",
    "workbench.reports",
    "workbench.comments",
    "workbench.bring_ups",
    "workbench.library",
    "workbench.home",
    "workbench.pages",
]

MIDDLEWARE = [
    "workbench.web.health.HealthMiddleware",
    "workbench.web.metrics.MetricsMiddleware",
    "workbench.web.middleware.RequestIdMiddleware",
    "workbench.api.bodies.BodyLimitMiddleware",
    "workbench.api.problems.ProblemMiddleware",
    "workbench.web.middleware.SecurityHeadersMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "workbench.accounts.middleware.CallerMiddleware",
    "workbench.api.concurrency_limit.ConcurrencyLimitMiddleware",
    "workbench.audit.services.AuditMiddleware",
    "workbench.api.throttle.RateLimitMiddleware",
    "workbench.accounts.middleware.LoginRequiredMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "workbench.web.middleware.DeletionRoomMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "workbench.api.idempotency.IdempotencyMiddleware",
    "workbench.web.middleware.NulMiddleware",
]

ROOT_URLCONF = "workbench.urls"
WSGI_APPLICATION = "workbench.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "workbench.accounts.context_processors.caller",
                "workbench.notifications.context_processors.inbox",
            ]
        },
    }
]

# Database: SQLite takes its write lock at BEGIN, or two writers that both read first fail at once
DATABASES = {"default": env.db("DATABASE_URL", default=f"sqlite:///{WORKBENCH_DATA / 'db.sqlite3'}")}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
else:
    DATABASES["default"]["CONN_MAX_AGE"] = env.int("CONN_MAX_AGE", default=60)
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Redis: the broker of the ledger's worker, that of the GPU workers, and the counters of the rate limits; each role has
# a user of its own (embedded/broker.py). Rendered rows stay in each process, and rendered results in a folder that the
# processes of a server share; the database is asked each time for what a person may see
REDIS_URL = env("REDIS_URL", default="")
GPU_REDIS_URL = env("GPU_REDIS_URL", default="")
CACHE_URL = env("CACHE_URL", default="")
if REDIS_URL and not (GPU_REDIS_URL and CACHE_URL):
    raise ImproperlyConfigured(
        "REDIS_URL is set without GPU_REDIS_URL or CACHE_URL: each role has its own (.env.example)"
    )
SHARED_PAGES = os.environ.get("WORKBENCH_SHARED_PAGES")  # a folder that serving/worker.py makes
IN_PROCESS = "workbench.web.cache.InProcessCache"
CACHES = {
    "default": {"BACKEND": "workbench.web.cache.ForgivingRedisCache", "LOCATION": CACHE_URL, "KEY_PREFIX": "cache"}
    if CACHE_URL
    else {"BACKEND": IN_PROCESS},
    "rows": {"BACKEND": IN_PROCESS, "LOCATION": "rows", "TIMEOUT": 600, "OPTIONS": {"MAX_ENTRIES": 5_000}},
    "results": {
        "BACKEND": "workbench.web.cache.ForgivingFolderCache" if SHARED_PAGES else IN_PROCESS,
        "LOCATION": SHARED_PAGES or "results",
        "TIMEOUT": 600,
        "OPTIONS": {"MAX_ENTRIES": 300},
    },
}

# Pipeline: how long a worker may be silent, when an unclaimed message is sent again, and how often that is looked at
LEASE_SECONDS = env.float("LEASE_SECONDS", default=45)
REPUBLISH_SECONDS = env.float("REPUBLISH_SECONDS", default=120)
SWEEP_SECONDS = env.float("SWEEP_SECONDS", default=30)

# People
AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"
SESSION_COOKIE_AGE = 60 * 60 * 24 * 7
INVITATION_DAYS = 7

# Second factors and passkeys, by django-allauth. Its pages of registration and login are not served (accounts/urls.py)
ACCOUNT_ADAPTER = "workbench.accounts.adapters.AccountAdapter"
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_RATE_LIMITS = {"login_failed": "5/5m/key"}  # wrong codes of one person
MFA_ADAPTER = "workbench.accounts.adapters.SecondFactorAdapter"
MFA_FORMS = {"authenticate": "workbench.accounts.forms.CodeForm", "activate_totp": "workbench.accounts.forms.SetUpForm"}
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_TOTP_ISSUER = "Kernel Workbench"
MFA_TOTP_TOLERANCE = 1  # the code of the half minute before and after, for clocks that differ
MFA_RATE_LIMITS = {"webauthn_login": "60/m/ip"}  # an office behind one address

# Transport
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL] if HTTPS else []
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 0 if DEBUG or not HTTPS else 60 * 60 * 24 * 365
SECURE_SSL_REDIRECT = HTTPS and not DEBUG
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.bool("BEHIND_PROXY", default=False) else None
X_FRAME_OPTIONS = "DENY"

# Limits. A chunk of an upload is read as a stream; everything else must fit in memory (less: serving/body_limits.py)
DATA_UPLOAD_MAX_MEMORY_SIZE = env.int("MAX_BODY_BYTES", default=64 * 2**20)
UPLOAD_CHUNK_BYTES = env.int("UPLOAD_CHUNK_BYTES", default=16 * 2**20)
MAX_REQUEST_BYTES = max(DATA_UPLOAD_MAX_MEMORY_SIZE, UPLOAD_CHUNK_BYTES) + 2**20
MODEL_MAX_BYTES = env.int("MODEL_MAX_BYTES", default=80 * 2**30)
ORGANISATION_QUOTA_BYTES = env.int("ORGANISATION_QUOTA_BYTES", default=500 * 2**30)
DISK_RESERVE_BYTES = env.int("DISK_RESERVE_BYTES", default=2**30)  # uploads leave this free: for database and Redis
ORGANISATION_OPEN_UPLOADS = env.int("ORGANISATION_OPEN_UPLOADS", default=10)
ORGANISATION_MODELS = env.int("ORGANISATION_MODELS", default=500)
ORGANISATION_WORKLOADS = env.int("ORGANISATION_WORKLOADS", default=5_000)
ORGANISATION_RUNS = env.int("ORGANISATION_RUNS", default=20_000)
ORGANISATION_OPEN_RUNS = env.int("ORGANISATION_OPEN_RUNS", default=100)
ORGANISATION_BRING_UPS = env.int("ORGANISATION_BRING_UPS", default=200)
API_REQUESTS_PER_MINUTE = env.int("API_REQUESTS_PER_MINUTE", default=600)  # of a person
ORGANISATION_REQUESTS_PER_MINUTE = env.int("ORGANISATION_REQUESTS_PER_MINUTE", default=5 * API_REQUESTS_PER_MINUTE)
ORGANISATION_REQUESTS = env.int("ORGANISATION_REQUESTS", default=6)  # at once in a lane of a process, of 8 threads
EVENT_DAYS = env.int("EVENT_DAYS", default=30)  # what stages said while they ran, from the end of their run on
LOGIN_ATTEMPTS = env.int("LOGIN_ATTEMPTS", default=10)
LOGIN_WINDOW_SECONDS = env.int("LOGIN_WINDOW_SECONDS", default=15 * 60)
NINJA_NUM_PROXIES = 1 if SECURE_PROXY_SSL_HEADER else 0

# Static files, plotly.js straight from its wheel
STATIC_URL = "static/"
STATIC_ROOT = Path(env("STATIC_ROOT", default=str(WORKBENCH_DATA / "static")))
STATIC_ROOT.mkdir(parents=True, exist_ok=True)
_plotly = importlib.util.find_spec("plotly")
PLOTLY_ASSETS = Path(str(_plotly.origin)).parent / "package_data" if _plotly else None
STATICFILES_DIRS: list[Path | tuple[str, Path | None]] = [BASE_DIR / "workbench" / "static"]
if PLOTLY_ASSETS:
    STATICFILES_DIRS.append(("plotly", PLOTLY_ASSETS))
WHITENOISE_USE_FINDERS = True
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

# E-mail: without EMAIL_HOST what would be sent is written into files
EMAIL_HOST = env("EMAIL_HOST", default="")
EMAIL_PORT = env.int("EMAIL_PORT", default=587)
EMAIL_HOST_USER = env("EMAIL_USER", default="")
EMAIL_HOST_PASSWORD = env("EMAIL_PASSWORD", default="")
EMAIL_SECURITY = env("EMAIL_SECURITY", default="starttls")  # or tls from the first byte, or none
if EMAIL_SECURITY not in ("starttls", "tls", "none"):
    raise ImproperlyConfigured(f"EMAIL_SECURITY is {EMAIL_SECURITY!r}, not starttls, tls or none")
EMAIL_USE_TLS, EMAIL_USE_SSL = EMAIL_SECURITY == "starttls", EMAIL_SECURITY == "tls"
EMAIL_TIMEOUT = 10
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if EMAIL_HOST else 'filebased'}.EmailBackend"
EMAIL_FILE_PATH = WORKBENCH_DATA / "mail"
DEFAULT_FROM_EMAIL = env("EMAIL_FROM", default=f"workbench@{PUBLIC_HOST}")

# PDF of reports: Chromium's command line. Its own sandbox is left out for root, whom Chromium refuses otherwise
_chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
CHROMIUM = shlex.split(env("CHROMIUM", default=_chromium)) + ["--no-sandbox"] * (os.geteuid() == 0)

# Webhooks: hosts, or host:port, that may be inside the operator's network and without HTTPS
WEBHOOK_ALLOWED_HOSTS = env.list("WEBHOOK_ALLOWED_HOSTS", default=[])

# Endpoints of customers: hosts, or host:port, that may be one; * is every host of the public internet. And those that
# may be inside the operator's network and without HTTPS
ENDPOINT_ALLOWED_HOSTS = env.list("ENDPOINT_ALLOWED_HOSTS", default=[])
ENDPOINT_PRIVATE_HOSTS = env.list("ENDPOINT_PRIVATE_HOSTS", default=[])

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

LOGGING = logs.configuration(env("LOG_LEVEL", default="INFO"))

# Prometheus: /metrics is not there without a token; classes that are asked when Prometheus asks
METRICS_TOKEN = env("METRICS_TOKEN", default="")
METRICS_COLLECTORS: list[str] = []
