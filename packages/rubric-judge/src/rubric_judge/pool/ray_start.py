"""The start of a Ray cluster on this machine."""

from typing import Any

_TRIES = 4


def start_ray(ray: Any, **options: Any) -> None:
    """Start a cluster, and try again if Ray gives up on its own processes.

    Ray waits 15 seconds for each of them, and a busy machine may need longer to load it; after the
    first try its files are in memory.

    Args:
        ray: Ray's module.
        options: options of `ray.init`.

    Raises:
        Exception: Ray's error of the last try.
    """
    for left in reversed(range(_TRIES)):
        try:
            ray.init(**options)
        except Exception:  # Ray raises bare exceptions here
            ray.shutdown()
            if not left:
                raise
        else:
            return
