"""docs/eval/transfer.md: its commands run, and its table of files is what is looked for."""

import re
import shlex
from pathlib import Path

import pytest
import structlog

from rubric_eval.cli import main
from rubric_eval.transfer.table import TransferTable
from rubric_train_openrlhf.policy import TinyConfig, build_tiny_policy

PAGE = "docs/eval/transfer.md"


def test_the_commands_of_the_page_run(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("lm_eval")
    page = (root / PAGE).read_text("utf-8")
    block = re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    policy = build_tiny_policy(
        ["What is 3 + 4? Reason step by step."],
        TinyConfig(hidden_size=32, intermediate_size=32, layers=1, heads=2, kv_heads=2),
        seed=0,
    )
    for name in ("base", "sft", "checkpoints/best"):
        policy.save(tmp_path / "runs" / "q" / name)

    for command in block.replace("\\\n", " ").splitlines():
        more = ["--max-tokens", "8"] if " transfer " in command else []
        monkeypatch.setattr("sys.argv", [*shlex.split(command), *more])
        with pytest.raises(SystemExit) as ended:
            main()
        structlog.reset_defaults()
        assert ended.value.code == 0, capsys.readouterr().err

    table = TransferTable.model_validate_json(
        Path("evals/transfer/transfer.json").read_bytes()
    )
    assert [row.model for row in table.rows] == ["base", "sft", "grpo"]
    assert list(table.items.values()) == [2] * 4


def test_missing_data_is_named_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("lm_eval")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench").mkdir()
    words = "rubric-eval transfer a=litellm:openai/x --data bench --out t"
    monkeypatch.setattr("sys.argv", words.split())

    with pytest.raises(SystemExit) as ended:
        main()
    structlog.reset_defaults()

    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "gsm8k_test.jsonl" in said
    assert "--benchmarks" in said
    assert not (tmp_path / "t").exists()


def test_the_files_of_the_page_are_those_that_are_looked_for(root: Path) -> None:
    from rubric_eval.lm_tasks.sources import SOURCES

    page = (root / PAGE).read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", page, re.MULTILINE)

    assert {name: set(re.findall(r"`(\w*\.\w+)`", files)) for name, files in rows} == {
        name: {
            file
            for file in source.files
            if not name.startswith("gpqa") or file.endswith(".csv")
        }
        | ({".jsonl"} if name.startswith("gpqa") else set())
        for name, source in SOURCES.items()
    }
