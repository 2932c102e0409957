"""What engineers found out about GPUs: the documents of `python -m kernels bring-up`."""
