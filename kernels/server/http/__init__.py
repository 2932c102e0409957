"""The web server: routes, bodies, prompts, answers. Imports without torch."""
