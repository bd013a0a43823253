from pathlib import Path

import pytest

from rubric_judge.ui.starting import presets
from rubric_train_openrlhf.cli import main
from rubric_train_openrlhf.config.train import load_config


@pytest.mark.parametrize("name", presets("rubric_train_openrlhf"))
def test_every_configuration_can_be_written_and_read(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(SystemExit, match="0"):
        main(["init", "mine", "--preset", name])

    text = Path("mine/train.yaml").read_text("utf-8")
    commands = [line.split()[:2] for line in capsys.readouterr().out.splitlines()[1:]]
    made = (
        [["rubric-synth", "collect"], ["rubric-synth", "run"]] if name == "tiny" else []
    )
    assert commands == [*made, ["rubric-train", "plan"], ["rubric-train", "run"]]
    assert text.startswith("# ")
    assert "mine/train.yaml" in text
    assert "configs/train" not in text
    assert load_config(Path("mine/train.yaml"))


def test_nothing_is_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.yaml").write_text("mine", encoding="utf-8")

    with pytest.raises(SystemExit, match="2"):
        main(["init", str(tmp_path)])

    assert "there already, and not overwritten" in capsys.readouterr().err
    assert (tmp_path / "train.yaml").read_text("utf-8") == "mine"


def test_an_unknown_configuration_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["init", str(tmp_path), "--preset", "huge"])

    said = " ".join(capsys.readouterr().err.split())
    presets = (
        "one_gpu_1_5b, paper, paper_llama31_8b_8gpu, paper_llama31_8b_8gpu_sft, tiny"
    )
    assert f"give one of {presets}" in said
