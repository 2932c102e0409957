"""TCP ports for servers that a test starts, and starts again, while other tests run."""

from kernels.load.server_process import reserved_port

__all__ = ["reserved_port"]
