"""Pages about the kernels of the library."""
