"""The whole rehearsal on the real stack: two steps of a production configuration on this CPU.

The model is one that this machine has; `test_stage` has one that it lacks.
"""

import json
from pathlib import Path

import pytest

from rubric_train_openrlhf.cluster.rehearse.checking import Report, Request, Status
from rubric_train_openrlhf.cluster.rehearse.rehearsal import rehearse
from rubric_train_openrlhf.config.train import read_values

pytestmark = [pytest.mark.openrlhf, pytest.mark.slow, pytest.mark.timeout(3600)]

PRESET = Path(__file__).parents[5] / "configs" / "train" / "paper_llama31_8b_8gpu.yaml"


@pytest.fixture(scope="module")
def rehearsed(
    smollm2_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Report, Path]:
    folder = tmp_path_factory.mktemp("rehearsal") / "paper"
    values = read_values(PRESET)
    values["model"] = {"type": "path", "path": str(smollm2_folder)}
    # One start serves this and the warm start.
    values["sft"] = {"steps": 100, "batch_size": 64, "learning_rate": 5e-6}
    values["cluster"] = {**values["cluster"], "warm_start": {"lora": {"rank": 64}}}  # type: ignore[dict-item]
    request = Request(source=PRESET, values=values, folder=folder, deadline_s=3000)
    return rehearse(request), folder


def test_the_paper_s_preset_passes(rehearsed: tuple[Report, Path]) -> None:
    report, _ = rehearsed
    assert report.passed, report.failures
    passed = {one.check for one in report.findings if one.status is Status.PASSED}
    assert passed >= {
        "configuration",
        "what OpenRLHF can do",
        "flags",
        "model",
        "tokenizer",
        "judge's contract",
        "two steps",
        "rows",
        "rewards",
        "advantages",
        "weight sync",
        "evaluation",
        "checkpoints",
        "asymmetry",
    }


def test_a_rehearsal_passes_where_all_of_the_stack_is_loaded(
    smollm2_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaving out only saves time: other versions of the stack can be tried without."""
    monkeypatch.setenv("RUBRIC_TRAIN_LOAD_ALL", "1")
    values = read_values(PRESET)
    values["model"] = {"type": "path", "path": str(smollm2_folder)}
    folder = tmp_path / "rehearsal"

    report = rehearse(
        Request(source=PRESET, values=values, folder=folder, deadline_s=3000)
    )

    assert report.has_run
    assert report.passed, report.failures


def test_what_stood_in_is_said(rehearsed: tuple[Report, Path]) -> None:
    report, folder = rehearsed
    said = " ".join(report.stand_ins)
    for words in ("the tokenizer of ", "an endpoint on this machine", "tasks: 8 made"):
        assert words in said
    assert json.loads((folder / "rehearse.json").read_text())["stand_ins"] == list(
        report.stand_ins
    )
    assert any(one.check == "only on GPUs" for one in report.findings)


def test_the_run_folder_is_a_whole_one(rehearsed: tuple[Report, Path]) -> None:
    _, folder = rehearsed
    run = folder / "run"
    for name in (
        "metrics.jsonl",
        "heldout.jsonl",
        "summary.json",
        "report.html",
        "checkpoints/best",
    ):
        assert (run / name).exists(), name
    assert json.loads((run / "summary.json").read_text())["status"] == "finished"
