"""What a worker on a GPU host uses: confined processes, its GPU, its files. Imports nothing: the guard starts so."""
