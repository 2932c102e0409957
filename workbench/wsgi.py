"""The web process: `gunicorn workbench.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

from workbench.storage import database, disk

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "workbench.settings")
application = get_wsgi_application()
database.wait_less()
disk.hold_database()
disk.keep_room()
