"""Load on a server over HTTP: planned requests sent on time, and their answers as they came. Imports no torch."""
