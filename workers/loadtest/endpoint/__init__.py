"""The worker's requests to a workload's endpoint: rounds of equal requests around verify, rising load after load."""
