from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog

from rubric_core import FolderLockError
from rubric_core.locks import folder_lock
from rubric_train_openrlhf import cli
from rubric_train_openrlhf.config.train import dump_config
from rubric_train_openrlhf.report import page
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import RunSummary
from rubric_train_openrlhf.step import probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rubric_train_openrlhf.config.train import TrainConfig


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.fixture
def file(make_config: Callable[..., TrainConfig], tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(dump_config(make_config(steps=1)))
    return path


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    return int(caught.value.code or 0)


def test_run_plan_and_report(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    assert call("plan", str(file), "--steps", "2") == 0
    summary = capsys.readouterr().out
    assert summary.startswith("each of 2 steps")
    assert summary.endswith("more, such as the resolved configuration: --full\n")
    assert call("plan", str(file), "--steps", "2", "--full") == 0
    assert "steps: 2\nseed" in capsys.readouterr().out

    assert call("run", str(file)) == 0
    shown = capsys.readouterr()
    result, *facts, report, then = shown.out.splitlines()
    assert re.fullmatch(
        r"finished: validation reward \d+\.\d % at step \d; before training \d+\.\d %",
        result,
    )
    told = " ".join(facts)
    assert "1 of 1" in told
    assert not {"None", "null", "{"} & set(told.split())
    assert "time of the steps" in told
    assert report.endswith("report.html")
    checkpoints = file.parent / "run" / "checkpoints"
    models = f"first=policy:{checkpoints}/step_000000 best=policy:{checkpoints}/best"
    assert then.startswith(f"next: rubric-eval heldout {models} --tasks TEST.jsonl ")
    assert then.endswith("--temperature 1 --max-tokens 24")
    assert "rubric-train: training: 0 of 1 steps\n" in shown.err

    assert call("run", str(file), "--steps", "2", "--resume") == 0
    assert "2 of 2" in capsys.readouterr().out
    run = file.parent / "run"
    assert call("report", str(run)) == 0
    assert call("report", str(run), "--reveal-grounding") == 0
    assert call("report", str(run), "--tasks", "tasks.jsonl") == 2
    assert (run / "report_revealed.html").is_file()
    page = run.with_name("page.html")
    assert call("report", str(run), "--out", str(page)) == 0
    assert page.is_file()
    assert call("report", str(run), str(run)) == 2
    assert call("report") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rollout.group_sise", "8"], "^rubric-train: .*did you mean 'group_size'"),
        (["--model.path", "nowhere"], "^rubric-train: no folder at 'nowhere'"),
        (
            ["--judge.spec", "{type: plugin, name: lexicl}"],
            "^rubric-train: the command line: .*did you mean `type: lexical`",
        ),
    ],
)
def test_a_known_error_is_one_message_and_status_2(
    capsys: pytest.CaptureFixture[str],
    file: Path,
    arguments: list[str],
    message: str,
) -> None:
    assert call("run", str(file), *arguments) == 2

    shown = capsys.readouterr()
    assert re.search(message, shown.err, re.MULTILINE)
    assert "Traceback" not in shown.err


ROUTER = """
model_list:
- {model_name: m, litellm_params: {model: openai/m, api_base: http://127.0.0.1:1/v1, api_key: x}}
router_settings: {routing_stratgy: simple-shuffle}
"""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            "api_base: http://127.0.0.1:1/v1, transport: direct",
            "'http://127.0.0.1:1/v1' (key: ",
        ),
        (
            "litellm_config: router.yaml",
            "router.yaml:4: .*did you mean 'routing_strategy'",
        ),
    ],
    ids=["dead", "router"],
)
def test_a_judge_that_does_not_answer_is_told_before_anything_is_trained(
    capsys: pytest.CaptureFixture[str],
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: str,
    message: str,
) -> None:
    monkeypatch.setattr(probe, "_AGAIN_S", 0.0)
    monkeypatch.chdir(file.parent)
    Path("router.yaml").write_text(ROUTER)
    model = "openai/m" if "direct" in settings else "m"
    spec = f"{{type: llm, model: {model}, max_transport_attempts: 1, {settings}}}"

    assert call("run", str(file), "--judge.spec", spec) == 2

    assert re.search(message.replace("(", r"\("), capsys.readouterr().err)
    run = RunFolder(file.parent / "run")
    assert not run.holds_run
    assert not run.checkpoints.exists()


def test_a_wrong_path_is_named_with_its_configuration(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    assert call("run", str(file), "--data.train", "absent.jsonl") == 2
    said = capsys.readouterr().err
    assert "no task file at 'absent.jsonl' (data.train);" in said
    assert said.endswith(f"configuration: {file}\n")


def test_the_folder_is_kept_while_its_report_is_written(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_config: Callable[..., TrainConfig],
) -> None:
    assert call("run", str(file)) == 0
    out = make_config().out
    (out / "report.html").unlink()
    with folder_lock(out):
        assert "no report is written: " in cli._report(out)
    assert not (out / "report.html").exists()

    write = page.write_report

    def write_while_another_asks(folder: Path) -> Path:
        with pytest.raises(FolderLockError, match="in use"), folder_lock(folder):
            pass
        return write(folder)

    monkeypatch.setattr(page, "write_report", write_while_another_asks)
    assert cli._report(out) == str(out / "report.html")
    assert (out / "report.html").exists()


def test_an_interrupted_start_is_told_from_an_interrupted_run(tmp_path: Path) -> None:
    assert "holds nothing of it" in cli._stopped(
        tmp_path / "run", go_on="rubric-train run C --resume"
    )
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.resolved.yaml").touch()
    assert "after step 0; go on with: rubric-train run C --resume" in cli._stopped(
        tmp_path / "run", go_on="rubric-train run C --resume"
    )


@pytest.mark.parametrize(("onset", "told"), [(12, True), (17, False), (None, False)])
def test_a_best_pass_after_the_onset_of_a_drift_is_told(
    *, onset: int | None, told: bool
) -> None:
    summary = RunSummary(
        status="diverged", steps=19, best_step=16, best_heldout_reward=0.8, onset=onset
    )
    words = cli._result(summary)  # pyright: ignore[reportPrivateUsage]
    assert words.startswith("diverged: validation reward 80.0 % at step 16")
    assert words.endswith(", after the judges seem to part") is told
