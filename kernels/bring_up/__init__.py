"""What works on a GPU that nobody prepared for, what is slow, and what is missing: `python -m kernels bring-up`."""
