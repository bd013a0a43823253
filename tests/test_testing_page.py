"""What docs/judge/testing.md shows, runs, and prints what the page says of it."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from rubric_judge import testing
from rubric_judge.testing import Fault

PAGE = Path(__file__).resolve().parents[1] / "docs" / "judge" / "testing.md"
TEXT = PAGE.read_text("utf-8")
CODE = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_page_runs_and_joins_every_call_with_its_result(
    printed: Callable[[str], str],
) -> None:
    code, _ = CODE

    rows = [line for line in printed(code).splitlines() if re.match(r"\d ", line)]
    assert len(rows) == 7  # five responses, two of which were asked for twice
    spoilt = {Fault.RATE_LIMIT, Fault.HALF_RESPONSE, Fault.NAN}
    assert {row.split()[1] for row in rows if " {} " in row} == spoilt
    assert sum(row.endswith("invalid not_finite") for row in rows) == 1
    assert sum(row.endswith("scored None") for row in rows) == 6


def test_the_script_with_a_process_of_its_own_prints_what_the_page_says(
    tmp_path: Path,
) -> None:
    _, code = CODE
    script = tmp_path / "script.py"
    script.write_text(code)

    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == re.findall(r"# prints: (.+)$", code, re.MULTILINE)


def test_the_page_names_what_there_is() -> None:
    named = set(re.findall(r"`(?:Fault\.)?(\w+)[`(]", TEXT))

    assert {name for name in named if name[0].isupper()} <= {
        *testing.__all__,
        *Fault.__members__,
    }
