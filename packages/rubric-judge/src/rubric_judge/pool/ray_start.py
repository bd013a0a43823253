"""The start of a Ray cluster on this machine."""

from typing import Any, Final

_TRIES: Final = 4


def start_ray(ray: Any, **options: Any) -> None:
    """Start a cluster, again where Ray gives up on its own processes.

    It waits 15 seconds for each of them, and a busy machine may need longer to load it; what the
    first try has read is in memory for the next.

    Args:
        ray: the module.
        options: of `ray.init`.

    Raises:
        Exception: Ray's own, of the last try.
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
