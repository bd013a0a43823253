"""`rubric-eval heldout` and `rejudge` as a person gives them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import pytest
import structlog
import yaml

from rubric_core import Decoding, write_tasks
from rubric_eval.answers.store import read_answers
from rubric_eval.cli import main
from rubric_eval.cli.app import DecodingOptions
from rubric_eval.lm_tasks import TASKS_PATH
from rubric_eval.records.files import ScoreRow, iterate_rows, read_run
from rubric_eval.records.inputs import EvalFolder
from rubric_judge.testing import (
    FakeCall,
    FakeEndpoint,
    Fault,
    ServedModel,
    marked,
    marked_share,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rubric_core import Task

    Command = Callable[..., int]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Run `rubric-eval` with these arguments, and return its exit status."""

    def run(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["rubric-eval", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    yield run
    structlog.reset_defaults()  # it logs to the standard error of a test that is over


class Files(NamedTuple):
    """What commands are given, and where they write."""

    tasks: Path
    lexical: Path
    out: Path


@pytest.fixture
def files(tmp_path: Path, tasks: tuple[Task, ...]) -> Files:
    files = Files(tmp_path / "test.jsonl", tmp_path / "lexical.yaml", tmp_path / "eval")
    write_tasks(files.tasks, tasks)
    files.lexical.write_text("type: lexical\n", encoding="utf-8")
    return files


@pytest.fixture
def served() -> Iterator[FakeEndpoint]:
    """A model that repeats the question."""

    def answer(call: FakeCall) -> str:
        return f"You ask: {call.messages[-1]['content']}"

    with FakeEndpoint(served=ServedModel(answer=answer, name="policy")) as endpoint:
        yield endpoint


def _model(served: FakeEndpoint) -> str:
    return f"policy=server:{served.url}#policy"


def test_a_model_is_evaluated_and_judged_again(
    command: Command, files: Files, served: FakeEndpoint,
    judge_file: Callable[..., Path], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    asked = (
        "--tasks",
        files.tasks,
        "--out",
        files.out,
        "--judge",
        files.lexical,
        "--seeds",
        0,
        1,
    )
    assert command("heldout", _model(served), *asked, "--temperature", 1) == 0
    shown = capsys.readouterr().out
    assert re.search(r"policy +lexical +0\.0 % +0\.0 to \d+\.\d .* 12\b", shown)
    answers = served.counts.total()
    with FakeEndpoint(0.5) as judge:
        stern = f"stern={judge_file(judge.url)}"
        assert (
            command("rejudge", files.out, "--tasks", files.tasks, "--judge", stern) == 0
        )
    shown = capsys.readouterr().out
    assert re.search(r"policy +stern +50\.0 % +\d+\.\d to \d+\.\d ", shown)
    assert re.search(r"lexical +stern +24 +-50\.0 +– +yes", shown)
    assert served.counts.total() == answers
    assert [entry.name for entry in read_run(EvalFolder(files.out)).judges] == [
        "lexical",
        "stern",
    ]


def test_a_judge_of_groups_scores_the_samples_of_a_seed_beside_each_other(
    command: Command, files: Files, tasks: tuple[Task, ...]
) -> None:
    numbers = count()

    def answer(_: FakeCall) -> str:
        number = next(numbers)
        return marked(f"Answer {number}.", view=number, share=number % 8 / 8)

    sampling = ("--samples", 3, "--seeds", 0, 1, "--temperature", 1)
    with (
        FakeEndpoint(marked_share) as endpoint,
        FakeEndpoint(served=ServedModel(answer=answer, name="policy")) as model,
    ):
        judge = files.out.parent / "beside.yaml"
        judge.write_text(
            f"type: listwise\nmodel: openai/fake\napi_base: {endpoint.url}\n"
            "transport: direct\n",
            encoding="utf-8",
        )
        asked = ("--tasks", files.tasks, "--judge", judge, "--out", files.out)
        assert command("heldout", _model(model), *asked, *sampling) == 0
        _, *calls = endpoint.calls  # the first asks whether it is there
        sizes = Counter(len(call.responses) for call in calls)

    assert sizes == {3: 2 * len(tasks)}
    folder = EvalFolder(files.out)
    for seed in (0, 1):
        texts = {
            (row.task_id, row.sample): row.text
            for row in read_answers(folder.answers("policy", seed))
        }
        scores = [
            row
            for _, row in iterate_rows(
                folder.scores("beside", "policy", seed), ScoreRow
            )
        ]
        assert len(scores) == 3 * len(tasks)
        for row in scores:
            share = re.search(r"earns ([0-9.]+)", texts[row.task_id, row.sample] or "")
            assert share is not None
            assert row.reward == pytest.approx(float(share[1]))


def test_a_wrong_judge_file_writes_nothing_and_locks_nothing(
    command: Command, files: Files, served: FakeEndpoint,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    wrong = files.out.parent / "wrong.yaml"
    wrong.write_text("type: lexical\nregex_timeout: 3\n", encoding="utf-8")
    common = ("--tasks", files.tasks, "--out", files.out)
    assert (
        command(
            "heldout",
            _model(served),
            *common,
            "--judge",
            files.lexical,
            "--judge",
            wrong,
        )
        == 2
    )
    assert "did you mean 'regex_timeout_s'" in capsys.readouterr().err
    assert not files.out.exists()
    twice = ("--judge", files.lexical, "--judge", f"lexical={wrong}")
    wrong.write_text("type: lexical\n", encoding="utf-8")
    assert command("heldout", _model(served), *common, *twice) == 2
    assert "two judges are called 'lexical'" in capsys.readouterr().err
    assert not files.out.exists()
    assert command("heldout", _model(served), *common, "--judge", files.lexical) == 0


def test_a_judge_that_goes_down_at_60_percent_ends_with_1_and_prints_no_table(
    command: Command, files: Files, served: FakeEndpoint,
    judge_file: Callable[..., Path], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    asked = ("--tasks", files.tasks, "--out", files.out, "--workers", 1)
    # 12 answers, after the question whether the judge is there.
    with FakeEndpoint(0.5, faults=[None] * 8 + [Fault.SERVER_ERROR] * 20) as judge:
        failed = command(
            "heldout", _model(served), *asked, "--judge", judge_file(judge.url)
        )
    shown = capsys.readouterr()
    assert failed == 1
    assert shown.out == ""
    # As many as had been asked about when the first one failed.
    failures = (
        r"'judge': no judgement for (\d) of 12 answers: judge: server_error \1 "
        r"\(first: HTTP 500"
    )
    assert re.search(failures, shown.err)
    assert (
        "At most 5 % (--max-unavailable-frac), and not all, may be missing" in shown.err
    )
    assert "Check the judge 'judge'" in shown.err
    assert f"kept in {files.out}; the same command goes on from there" in shown.err
    assert not EvalFolder(files.out).heldout.exists()
    with FakeEndpoint(0.5) as judge:
        assert (
            command("heldout", _model(served), *asked, "--judge", judge_file(judge.url))
            == 0
        )
    assert served.counts.total() == 12


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--temperature", 11), "--temperature: "),
        (("--limit", 0), "for --limit. Must be >= 1"),
        (("--seeds", 1, 1), r"seeds \[1, 1\]"),
        (("--samples", 0), "for --samples. Must be >= 1"),
        (("--max-unavailable-frac", 1.5), "max-unavailable-frac 1.5"),
        (("--samples", 1.5), "'1.5' is no whole number"),
        (("--seeds", 0, 1.5), "'1.5' is no whole number"),
        (("--limit", "many"), "Invalid value"),
    ],
)
def test_options_that_can_only_be_a_mistake_are_named(
    command: Command, files: Files, options: tuple[object, ...],
    said: str, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    common = ("--tasks", files.tasks, "--out", files.out, "--judge", files.lexical)
    assert (
        command("heldout", "m=server:http://127.0.0.1:9/v1#m", *common, *options) == 2
    )
    assert re.search(said, capsys.readouterr().err)
    assert not files.out.exists()


def test_a_folder_of_other_decoding_or_other_tasks_is_refused(
    command: Command, files: Files, tasks: tuple[Task, ...],
    served: FakeEndpoint, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    common = ("--tasks", files.tasks, "--out", files.out, "--judge", files.lexical)
    assert command("heldout", _model(served), *common) == 0
    assert command("heldout", _model(served), *common, "--max-tokens", 5) == 2
    assert "its max-tokens is 3072, not 5" in capsys.readouterr().err
    write_tasks(files.out.parent / "fewer.jsonl", tasks[:3])
    fewer = ("--tasks", files.out.parent / "fewer.jsonl", "--judge", files.lexical)
    assert command("rejudge", files.out, *fewer) == 2
    assert "lacks 9 of the 12 tasks" in capsys.readouterr().err
    assert command("rejudge", files.out.parent / "nothing", *fewer) == 2
    assert "holds no evaluation" in capsys.readouterr().err


def test_the_flags_and_the_task_of_lm_eval_decode_as_the_type_does() -> None:
    """Which is how checkpoints are selected too: the flags are written out for their help."""
    assert DecodingOptions().decoding() == Decoding()
    lines = (TASKS_PATH / "rubric_heldout.yaml").read_text("utf-8").splitlines()
    (kwargs,) = (line for line in lines if line.startswith("generation_kwargs: "))
    assert yaml.safe_load(kwargs)["generation_kwargs"] == {
        "until": [],
        "do_sample": False,
        "max_gen_toks": Decoding().max_tokens,
    }
