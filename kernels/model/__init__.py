"""A transformers model as weights and ops: read or generated, on one GPU or sharded over several."""
