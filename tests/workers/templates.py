"""Template processes that are ready to be forked."""

import os
from collections.abc import Mapping

from tests.waiting import wait_for
from workers.host.child_environment import template_environment
from workers.host.template_process import Template


def ready_template(*modules: str, env: Mapping[str, str] | None = None) -> Template:
    made = Template(modules, env or template_environment(os.environ))
    wait_for(lambda: made.ready, 300, "the template process")
    return made
