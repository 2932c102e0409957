"""Put before the path of a web process, whose finishes then hang in the middle, before a model's row is written.

The file that HANGS names is there as soon as one does.
"""

import os
import sys
import time
from importlib.abc import Loader, MetaPathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def _hang(*_: Any, **__: Any) -> None:
    Path(os.environ["HANGS"]).touch()
    time.sleep(600)


class _Hanging(MetaPathFinder):
    """Replaces `inspect` of the module that finishes uploads, once that is imported."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "workbench.intake.services.uploads":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        assert spec is not None
        assert isinstance(spec.loader, Loader)
        load = spec.loader.exec_module

        def loaded(module: Any) -> None:
            load(module)
            module.inspect = _hang

        spec.loader.exec_module = loaded  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _Hanging())
