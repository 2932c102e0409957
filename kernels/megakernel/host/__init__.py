"""What the CPU does for a launch: packed weights, uploads, the build, the call, traces."""
