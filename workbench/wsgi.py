"""The web process: `gunicorn workbench.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

from workbench import disk

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "workbench.settings")
application = get_wsgi_application()
disk.hold_database()
disk.keep_room()
