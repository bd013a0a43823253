"""Servers whose weights were replaced behind one name and one root."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest
import structlog

from rubric_core import write_tasks
from rubric_eval.cli import main
from rubric_eval.records.files import read_run, write_run
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.responders.spec import OTHER, SAME
from rubric_judge.testing import FakeEndpoint, Fault, ServedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rubric_core import Task

    Command = Callable[..., int]


class Files(NamedTuple):
    """What commands are given, and where they write."""

    tasks: Path
    judge: Path
    out: Path

    def everything(self) -> dict[Path, bytes]:
        """All that the folder holds but its lock, which each run writes to."""
        lock = EvalFolder(self.out).lock
        return {
            path: path.read_bytes()
            for path in self.out.rglob("*")
            if path.is_file() and path != lock
        }


@pytest.fixture
def files(tmp_path: Path, tasks: tuple[Task, ...]) -> Files:
    files = Files(tmp_path / "test.jsonl", tmp_path / "lexical.yaml", tmp_path / "eval")
    write_tasks(files.tasks, tasks)
    files.judge.write_text("type: lexical\n", encoding="utf-8")
    return files


@pytest.fixture
def heldout(files: Files, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Run `rubric-eval heldout` of models, and return its exit status."""

    def run(*models: str) -> int:
        options = ("--tasks", files.tasks, "--judge", files.judge, "--out", files.out)
        arguments = ["rubric-eval", "heldout", *models, *map(str, options)]
        monkeypatch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    yield run
    structlog.reset_defaults()  # it logs to the standard error of a test that is over


def _serving(
    weights: str | None = "first",
    *,
    noise: float = 0.0,
    owner: str = "vllm",
    faults: Sequence[Fault | None] = (),
) -> FakeEndpoint:
    served = ServedModel(answer="It sorts.", owner=owner, weights=weights, noise=noise)
    return FakeEndpoint(served=served, faults=faults)


def test_other_weights_behind_the_same_name_are_refused_and_nothing_is_touched(
    heldout: Command, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    with _serving() as first:
        assert heldout(f"m=server:{first.url}#fake") == 0
        assert first.counts.total() == 12
    before = files.everything()
    with _serving("second") as second:
        capsys.readouterr()
        assert heldout(f"m=server:{second.url}#fake") == 2
        said = capsys.readouterr()
        assert second.counts.total() == 0
    assert "the model 'm' (m=server:" in said.err
    assert "is not the one that gave the answers in" in said.err
    assert len(said.err.splitlines()) == 1
    assert files.everything() == before


def test_other_weights_are_another_model_under_another_name(heldout: Command) -> None:
    with _serving() as first:
        assert heldout(f"m=server:{first.url}#fake") == 0
    with _serving("second") as second:
        assert heldout(f"n=server:{second.url}#fake") == 0
        assert second.counts.total() == 12


def test_answers_that_never_came_to_scores_are_not_gone_on_with_either(
    heldout: Command, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """The manifest of the run in between does not name the model; its answers are still there."""
    with (
        _serving(faults=[None] * 5 + [Fault.BAD_REQUEST] * 7) as first,
        _serving("other") as other,
    ):
        assert heldout(f"m=server:{first.url}#fake") == 1
        assert heldout(f"o=server:{other.url}#fake") == 0
    assert [model.name for model in read_run(EvalFolder(files.out)).models] == ["o"]
    with _serving("second") as second:
        assert heldout(f"m=server:{second.url}#fake") == 2
        assert second.counts.total() == 0
    assert "is not the one that gave the answers" in capsys.readouterr().err
    with _serving() as first:
        assert heldout(f"m=server:{first.url}#fake") == 0
        assert first.counts.total() == 7


@pytest.mark.parametrize(
    ("noise", "status", "events"),
    [
        (0.0, 0, []),
        (SAME / 2, 0, []),
        (OTHER / 2, 0, ["weights_differ_slightly"]),
        (OTHER * 1.1, 2, []),
    ],
)
def test_chance_is_let_pass_and_what_may_be_more_is_said(
    heldout: Command, noise: float, status: int, events: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with _serving() as first:
        assert heldout(f"m=server:{first.url}#fake") == 0
    capsys.readouterr()
    with _serving(noise=noise) as again:
        assert heldout(f"m=server:{again.url}#fake") == status
        assert again.counts.total() == 0
    said = capsys.readouterr().err.splitlines()
    assert [
        json.loads(line)["event"] for line in said if line.startswith("{")
    ] == events


@pytest.mark.parametrize("weights", [None, "first"])
def test_a_server_that_says_nothing_of_texts_is_taken_by_its_name(
    heldout: Command, weights: str | None, files: Files
) -> None:
    with _serving(weights, owner="somebody" if weights else "vllm") as first:
        assert heldout(f"m=server:{first.url}#fake") == 0
    assert not EvalFolder(files.out).answered_by("m").exists()
    with _serving(None) as second:
        assert heldout(f"m=server:{second.url}#fake") == 0
        assert second.counts.total() == 0


def test_a_server_that_says_nothing_any_more_is_gone_on_with_and_said(
    heldout: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    with _serving() as first:
        assert heldout(f"m=server:{first.url}#fake") == 0
    with _serving(None) as second:
        assert heldout(f"m=server:{second.url}#fake") == 0
    assert '"weights_not_checked"' in capsys.readouterr().err


def test_who_knows_better_can_have_it_unchecked(
    heldout: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def models(url: str) -> str:
        entry = f"{{kind: server, api_base: {url}, model: fake, checks_weights: false}}"
        (tmp_path / "models.yaml").write_text(
            f"models:\n  m: {entry}\n", encoding="utf-8"
        )
        return str(tmp_path / "models.yaml")

    with _serving() as first:
        assert heldout(f"m=server:{first.url}#fake") == 0
    with _serving("second") as second:
        assert heldout(models(second.url)) == 0
        assert second.counts.total() == 0
    assert '"weights_not_checked"' in capsys.readouterr().err


def test_replicas_of_different_weights_are_none(
    heldout: Command, files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        _serving() as first,
        _serving("second") as second,
        _serving(noise=SAME) as near,
    ):
        for other, status in ((second, 2), (near, 0)):
            entry = (
                f"{{kind: server, api_base: [{first.url}, {other.url}], model: fake}}"
            )
            (tmp_path / "models.yaml").write_text(
                f"models:\n  m: {entry}\n", encoding="utf-8"
            )
            assert heldout(str(tmp_path / "models.yaml")) == status
            assert files.out.exists() == (status == 0)
    assert "its addresses serve different models" in capsys.readouterr().err


def test_a_damaged_record_is_named(
    heldout: Command, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    with _serving() as first:
        assert heldout(f"m=server:{first.url}#fake") == 0
        record = EvalFolder(files.out).answered_by("m")
        record.write_text('{"by_fingerprint": {"x": 1}}', encoding="utf-8")
        assert heldout(f"m=server:{first.url}#fake") == 2
        assert (
            f"{record}: is not as the evaluation's end left it"
            in capsys.readouterr().err
        )
        run = read_run(EvalFolder(files.out))
        write_run(EvalFolder(files.out), run.model_copy(update={"status": "failed"}))
        assert heldout(f"m=server:{first.url}#fake") == 2
    assert f"{record}: is no record of the weights" in capsys.readouterr().err
