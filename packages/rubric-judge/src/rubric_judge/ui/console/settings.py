"""Settings of libraries that are read from the environment when these are loaded."""

import os


def let_threads_sleep() -> None:
    """Let OpenMP's threads sleep while they wait for work, unless the user says otherwise.

    To be called before torch is loaded. Threads that spin cost up to five times the time where
    other work shares the cores.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
