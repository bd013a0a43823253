"""`rubric-judge reliability`."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from rubric_core import Task, write_tasks
from rubric_judge.cli import main
from rubric_judge.quality.reliability import ReliabilityReport
from rubric_judge.testing import FakeEndpoint
from rubric_judge.testing.calls import FakeCall

CONFIGS = Path(__file__).parents[4] / "configs" / "judge"
MakeTasks = Callable[[int], dict[str, Task]]
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    make_tasks: MakeTasks,
) -> Iterator[Command]:
    """Return a function that runs `rubric-judge reliability` beside nine tasks with responses."""
    monkeypatch.chdir(tmp_path)
    tasks = make_tasks(9)
    write_tasks(tmp_path / "tasks.jsonl", tasks.values())
    texts = (
        "It has word0 in it.",
        "It has word1 and word2 in it.",
        "It has nothing in it.",
    )
    rows = [{"task_id": name, "response": text} for name in tasks for text in texts]
    Path("responses.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["rubric-judge", "reliability", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    yield run
    structlog.reset_defaults()


def _noisy(generator: random.Random) -> Callable[[FakeCall], dict[str, float]]:
    def award(call: FakeCall) -> dict[str, float]:
        return {
            name: weight * generator.choice((0.25, 0.5, 0.75))
            for name, weight in call.weights.items()
        }

    return award


def test_judges_are_called_measured_drawn_and_resumed(
    command: Command, tmp_path: Path
) -> None:
    with FakeEndpoint(_noisy(random.Random(0))) as endpoint:
        (tmp_path / "noisy.yaml").write_text(
            f"type: llm\nmodel: openai/fake\ntransport: direct\napi_base: {endpoint.url}\n"
        )
        words = ("tasks.jsonl", "responses.jsonl", "--judge", str(CONFIGS / "lexical.yaml"),
                 "--judge", "noisy.yaml", "--replicates", "3", "--resamples", "30",
                 "--ledger", "ledger.sqlite", "--out", "out")  # fmt: skip
        status, printed, complaints = command(*words)
        calls = len(endpoint.calls)
        first = (tmp_path / "out/reliability.json").read_text()
        again = command(*words)

        assert (status, complaints, calls) == (
            0,
            "",
            1 + 81,
        )  # the first asks whether it is there
        assert again[0] == 0
        assert len(endpoint.calls) == calls  # nothing was asked for twice
    assert (tmp_path / "out/reliability.json").read_text() == first
    report = ReliabilityReport.model_validate_json(first)
    lexical, noisy = report.judges
    assert (lexical.tau2.value, lexical.flips.value) == (0.0, 0.0)
    assert noisy.tau2.value == pytest.approx(0.25**2 * 2 / 3, rel=0.35)
    assert "Judges" in printed
    assert "Krippendorff" in printed
    last = printed[printed.index("written: ") :].replace("\n", "")
    assert last.replace(" ", "") == (
        "written:out/reliability.md,reliability.json,reliability.html,judgements.html,"
        "noise_by_criterion.png,noise_predicted_measured.png,judges.png,sign_flips.png"
    )
    html = (tmp_path / "out/reliability.html").read_text()
    assert report.summary().startswith(
        "Share of advantages whose sign a second judgement turns: 0.0%"
    )
    assert html.index("Krippendorff’s α") < html.index("Noise of each judge")
    # Repeats stand side by side on a private page, to which names of criteria and judges lead.
    criterion = report.criteria[0].criterion
    assert f'href="judgements.html#criterion={criterion}&amp;sort=gap"' in html
    assert 'href="judgements.html#differ=judges&amp;sort=gap">J1</a>' in html
    viewer = (tmp_path / "out/judgements.html").read_text()
    assert "Private." in viewer
    assert f'["judged responses","{noisy.judge} (3)"]' in viewer
    page = (tmp_path / "out/reliability.md").read_text()
    assert "| τ² of a criterion |" in page
    names = ["judges", "noise_by_criterion", "noise_predicted_measured", "sign_flips"]
    for name in names:
        assert f"]({name}.png)" in page
        assert (tmp_path / f"out/{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / f"out/{name}.svg").read_text().startswith("<?xml")
    written = sorted(path.name for path in (tmp_path / "out").glob("judgements_*"))
    assert written == [
        f"judgements_{j}_{r}.jsonl" for j in ("lexical", "noisy") for r in (0, 1, 2)
    ]

    status, _, _ = command(
        "tasks.jsonl", "--judgements", *(f"out/{name}" for name in written),
        "--resamples", "30", "--out", "from_files",
    )  # fmt: skip

    assert status == 0
    assert (tmp_path / "from_files/reliability.json").read_text() == first


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("tasks.jsonl",), "there is nothing to measure"),
        (
            ("tasks.jsonl", "--judge", "lexical.yaml"),
            "--judge and RESPONSES go together",
        ),
        (
            (
                "tasks.jsonl",
                "responses.jsonl",
                "--judge",
                "j.yaml",
                "--replicates",
                "0",
            ),
            'Invalid value "0" for --replicates. Must be >= 1.',
        ),
        (
            ("tasks.jsonl", "--replicates", str(2**70)),
            "--replicates. Must be <= 1000000.",
        ),
        (
            ("tasks.jsonl", "--resamples", str(10**10)),
            "--resamples. Must be <= 1000000.",
        ),
        (
            ("tasks.jsonl", "responses.jsonl", "--judge", "j.yaml", "--workers", "0"),
            "--workers. Must",
        ),
        (
            (
                "tasks.jsonl",
                "responses.jsonl",
                "--judge",
                "a/j.yaml",
                "--judge",
                "b/j.yaml",
            ),
            "2 files are called 'j'",
        ),
        (("tasks.jsonl", "--judgements", "none.jsonl"), "No such file"),
    ],
)
def test_a_wrong_input_ends_in_one_line(
    command: Command, words: tuple[str, ...], problem: str
) -> None:
    status, _, complaints = command(*words, "--out", "out")

    assert status == 2
    assert complaints.startswith("rubric-judge: ")
    assert problem in complaints
    assert complaints.count("\n") == 1


def test_a_judge_that_is_never_reached_ends_with_status_1(
    command: Command, tmp_path: Path, make_tasks: MakeTasks
) -> None:
    tasks = make_tasks(1)
    (task,) = tasks.values()
    row: dict[str, Any] = {
        "line": 1,
        "task_id": task.task_id,
        "reward": None,
        "result": {"outcome": "unavailable", "reason": "timeout", "judge": "gone"},
    }
    (tmp_path / "gone.jsonl").write_text(json.dumps(row))

    status, printed, complaints = command(
        "tasks.jsonl", "--judgements", "gone.jsonl", "--out", "out"
    )

    assert status == 1
    assert "100.0%" in printed
    assert complaints == "without scores, gone: timeout 1\n"


@pytest.mark.parametrize("folder", ["tasks.jsonl", "tasks.jsonl/deeper", "/proc"])
def test_a_folder_that_cannot_be_written_is_one_line_before_the_first_call(
    command: Command, tmp_path: Path, folder: str
) -> None:
    with FakeEndpoint(0.5) as endpoint:
        (tmp_path / "judge.yaml").write_text(
            f"type: llm\nmodel: openai/fake\ntransport: direct\napi_base: {endpoint.url}\n"
        )
        status, _, complaints = command(
            "tasks.jsonl", "responses.jsonl", "--judge", "judge.yaml", "--out", folder
        )

        assert status == 2
        assert complaints.startswith(
            f"rubric-judge: --out {folder}: cannot be made a folder"
        )
        assert complaints.endswith("name another folder\n")
        assert complaints.count("\n") == 1
        assert not endpoint.calls


def test_an_unknown_reference_is_refused_before_the_first_call(
    command: Command, tmp_path: Path
) -> None:
    with FakeEndpoint(0.5) as endpoint:
        (tmp_path / "judge.yaml").write_text(
            f"type: llm\nmodel: openai/fake\ntransport: direct\napi_base: {endpoint.url}\n"
        )
        status, _, complaints = command(
            "tasks.jsonl", "responses.jsonl", "--judge", "judge.yaml",
            "--judge", str(CONFIGS / "lexical.yaml"), "--reference", "Anna", "--out", "out",
        )  # fmt: skip

        assert status == 2
        assert complaints.startswith(
            "rubric-judge: the reference 'Anna' is no judge here: "
        )
        assert "'lexical_v3'" in complaints
        assert complaints.count("\n") == 1
        assert not endpoint.calls
