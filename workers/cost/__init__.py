"""Money from measured throughput: unit costs, fleets, break-even, and what moves them. Pure functions, USD."""
