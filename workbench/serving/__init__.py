"""The web server: gunicorn's processes around waitress, which reads whole requests before a thread is taken."""
