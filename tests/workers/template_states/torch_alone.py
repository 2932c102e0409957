"""torch without what forks take from a template beside it."""

import torch  # noqa: F401

from workers.host import template_process

template_process.INDUCTOR = ()
template_process.IMPORTED_LATE = ("torch._inductor.cpu_vec_isa",)
