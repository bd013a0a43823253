"""docs/eval/statistics.md: its commands and its Python, in the order of the page."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from rubric_eval.records.inputs import EvalFolder

PAGE = Path(__file__).parents[4] / "docs" / "eval" / "statistics.md"


class Evaluations(Protocol):
    """What the fixture writes."""

    root: Path
    tasks: Path

    def heldout(self, name: str, **changes: object) -> EvalFolder: ...

    def transfer(self, name: str, **changes: object) -> EvalFolder: ...


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_page_can_be_followed(
    command: Callable[..., int],
    evaluations: Evaluations,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = PAGE.read_text("utf-8")
    monkeypatch.chdir(evaluations.root)
    stages = {"base": 0.3, "sft": 0.4, "grpo": 0.6}
    evaluations.heldout("evals/heldout", models=stages)
    evaluations.transfer("evals/transfer", models=stages)
    Path("dataset").mkdir()
    evaluations.tasks.rename("dataset/test.jsonl")
    (commands,) = _blocks(page, "bash")
    for line in commands.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "rubric-eval"
        assert command(*arguments) == 0
    assert Path("evals/heldout/comparison.json").exists()
    assert Path("evals/heldout/hacking.json").exists()
    capsys.readouterr()
    (python,) = _blocks(page, "python")
    exec(compile(python, PAGE.name, "exec"), {"__name__": "__main__"})  # noqa: S102  # the page
    assert re.fullmatch(r"heldout lexical 0\.\d+ \S+ True\n", capsys.readouterr().out)
