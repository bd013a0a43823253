"""What runs on the first of two nodes: training runs over both, and a note of where they were.

python run_on_two_nodes.py ADDRESS NOTES CONFIG...
"""

import contextlib
import json
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import ray

from rubric_train_openrlhf.cluster.launching.launch import launch
from rubric_train_openrlhf.config.train import load_config
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run.folder import RunFolder

NODES = 2
LIMIT_S = 1500.0
_TITLE = re.compile(r"ray::(\w+)")


def main() -> None:
    """Run one configuration after the other."""
    address, notes, *configs = sys.argv[1:]
    wait_for_nodes(address)
    places: dict[str, dict[str, list[str]]] = {}
    for name in configs:
        config = load_config(Path(name))
        with ThreadPoolExecutor() as pool:
            noted = pool.submit(nodes_after_a_step, RunFolder(config.out))
            launch(config)
            places[name] = noted.result()
    Path(notes).write_text(json.dumps(places))


def nodes_after_a_step(folder: RunFolder) -> dict[str, list[str]]:
    """Note where the actors are once the run has a step."""
    gives_up_s = time.monotonic() + LIMIT_S
    while time.monotonic() < gives_up_s:
        with contextlib.suppress(ResumeError):  # a row is being written
            if folder.read_metrics():
                return nodes_of_actors()
        time.sleep(0.1)
    raise TimeoutError(f"no step after {LIMIT_S:.0f} s")


def wait_for_nodes(address: str) -> None:
    """Wait until Ray is on both nodes."""
    gives_up_s = time.monotonic() + LIMIT_S
    while time.monotonic() < gives_up_s:
        try:
            ray.init(address, log_to_driver=False)
            n = sum(node["Alive"] for node in ray.nodes())
        except ConnectionError:
            n = 0
        finally:
            ray.shutdown()
        if n == NODES:
            return
        time.sleep(1)
    raise TimeoutError(f"Ray is not on {NODES} nodes after {LIMIT_S:.0f} s")


def nodes_of_actors() -> dict[str, list[str]]:
    """The nodes of Ray's actors by the beginning of their titles: this process sees all."""
    here = Path("/proc/self/ns/net").readlink()
    found: dict[str, list[str]] = {}
    for process in psutil.process_iter():
        try:
            title = _TITLE.match(" ".join(process.cmdline()))
            network = Path(f"/proc/{process.pid}/ns/net").readlink()
        except (OSError, psutil.Error):  # it has ended
            continue
        if title is not None:
            found.setdefault(title[1], []).append(
                "first" if network == here else "second"
            )
    return found


if __name__ == "__main__":
    main()
