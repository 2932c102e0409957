"""From a torch.profiler trace to a table of the model's own operations."""
