"""The sample model, the script that trained it, and `make demo`."""
