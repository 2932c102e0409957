"""Starts a thread by the name of jemalloc's."""

import threading
from pathlib import Path

thread = threading.Thread(target=threading.Event().wait, daemon=True)
thread.start()
Path(f"/proc/self/task/{thread.native_id}/comm").write_text("jemalloc_bg_thd")
