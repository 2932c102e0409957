"""Reports: frozen snapshots of a run's results, their review and publication, and the links that share them."""
