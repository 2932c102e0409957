"""How many sockets this process may hold."""

import resource


def allow(descriptors: int) -> None:
    """Raises this process's limit of open files to `descriptors`, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < descriptors:
        highest = descriptors if hard == resource.RLIM_INFINITY else min(descriptors, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
