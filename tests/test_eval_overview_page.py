"""docs/overview.md, "Your evaluation": its commands run one after another, as they are written."""

import json
import re
import shlex
import shutil
from importlib import resources
from pathlib import Path

import pytest
import structlog

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_eval.cli import main
from rubric_eval.transfer.suites import TITLES
from rubric_eval.transfer.table import TransferTable
from rubric_train_openrlhf.policy import TinyConfig, build_tiny_policy

SMALLER = {"heldout": "--max-tokens 8", "transfer": "--max-tokens 8 --limit 4"}
"""What is added so that a test is not an hour of answers; nothing is left out or replaced."""


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the section takes for granted: two models, a run, questions, a judge, data."""
    monkeypatch.chdir(tmp_path)
    questions = [f"What does function {number} return?" for number in range(6)]
    for seed, folder in enumerate(("models/base", "runs/mine/checkpoints/best")):
        config = TinyConfig(
            hidden_size=32, intermediate_size=32, layers=1, heads=2, kv_heads=2
        )
        build_tiny_policy(questions, config, seed=seed).save(tmp_path / folder)
        (tmp_path / folder / "slots.json").unlink()  # asked as an `hf:` model is
    curve = [
        {"step": step, "reward_mean": 0.1 * step, "zero_reward_frac": 0.0}
        for step in (1, 2)
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in curve)
    Path("runs/mine/metrics.jsonl").write_text(lines, "utf-8")
    rubric = Rubric(
        criteria=(Criterion(id="named", weight=1.0, required_elements=("matrix",)),)
    )
    Path("dataset").mkdir()
    write_tasks(
        Path("dataset/test.jsonl"),
        [
            Task(question=text, grounding=Grounding(f"Passage {text}"), rubric=rubric)
            for text in questions
        ],
    )
    Path("judge.yaml").write_text("type: lexical\n", "utf-8")
    Path("bench").mkdir()
    small = resources.files("rubric_eval") / "lm_tasks" / "small"
    for name in (
        "gsm8k_test.jsonl",
        "math500_test.jsonl",
    ):  # without GPQA, which is gated
        with resources.as_file(small / name) as path:
            shutil.copy(path, "bench")
    return tmp_path


def test_the_four_commands_of_the_overview_run(
    root: Path,
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("lm_eval")
    section = (
        (root / "docs/overview.md")
        .read_text("utf-8")
        .partition("\n## Your evaluation\n")[2]
    )
    (block,) = re.findall(
        r"^```bash\n(.*?)^```$", section.partition("\n## ")[0], re.MULTILINE | re.DOTALL
    )
    commands = [shlex.split(line) for line in block.replace("\\\n", " ").splitlines()]

    assert [words[1] for words in commands] == [
        "heldout",
        "transfer",
        "compare",
        "report",
    ]
    for words in commands:
        monkeypatch.setattr("sys.argv", [*words, *SMALLER.get(words[1], "").split()])
        with pytest.raises(SystemExit) as ended:
            main()
        structlog.reset_defaults()
        assert ended.value.code == 0, (words[1], capsys.readouterr().err)

    table = TransferTable.model_validate_json(
        Path("evals/transfer/transfer.json").read_bytes()
    )
    assert [row.model for row in table.rows] == ["base", "grpo"]
    assert {TITLES[name]: n for name, n in table.items.items()} == {
        "GSM8K": 4,
        "MATH": 4,
    }
    assert (workplace / "evals" / "heldout" / "comparison.json").is_file()
    page = (workplace / "evals" / "heldout" / "report.html").read_text("utf-8")
    assert "GSM8K" in page
    assert 'id="training"' in page
    assert "Passage What does" not in page
