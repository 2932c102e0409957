"""What the processes of the web use as well. Imports nothing."""
