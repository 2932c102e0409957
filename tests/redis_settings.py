"""The settings of a site on a Redis that has no users."""


def redis_settings(port: int | str) -> dict[str, str]:
    """Each role's database of the Redis at this port of this machine."""
    names = {"GPU_REDIS_URL": 0, "REDIS_URL": 1, "CACHE_URL": 2}
    return {name: f"redis://127.0.0.1:{port}/{database}" for name, database in names.items()}
