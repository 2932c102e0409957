"""A torch that says it has touched CUDA."""

import sys
from types import ModuleType, SimpleNamespace

from workers.host import template_process

template_process.IMPORTED_LATE = ()
sys.modules["torch"] = ModuleType("torch")
sys.modules["torch"].cuda = SimpleNamespace(is_initialized=lambda: True)  # type: ignore[attr-defined]
