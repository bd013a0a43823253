from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_WATCHED = """
import time
from pathlib import Path
from rubric_train_openrlhf.cluster.orphans import end_once
end_once(Path({sign!r}).exists, look_every_s=0.01)
print("up", flush=True)
time.sleep(60)
"""


def test_a_process_ends_once_what_it_stands_for_is_over(tmp_path: Path) -> None:
    sign = tmp_path / "over"
    code = _WATCHED.format(sign=str(sign))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "up\n"
        assert one.poll() is None
        sign.touch()
        assert one.wait(timeout=600) == 1
