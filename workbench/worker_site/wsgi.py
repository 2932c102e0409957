"""The worker API's process: `gunicorn workbench.worker_site.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ["DJANGO_SETTINGS_MODULE"] = "workbench.worker_site.settings"
application = get_wsgi_application()
