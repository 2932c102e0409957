"""What came out of runs: the page of a result, the comparison of runs, plans for a fleet."""
