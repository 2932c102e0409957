"""The site that GPU workers call. It has processes and a port of its own, and serves the worker API alone."""
