"""Files of responses, commands and the service: the answer is judged, and thoughts are counted."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from rubric_core import Answer, Criterion, Grounding, Rubric, Task, Thought, write_tasks
from rubric_judge import JudgePool, LexicalJudge
from rubric_judge.cli import main
from rubric_judge.quality.labels.foreign import ForeignScore, Place, import_scores
from rubric_judge.quality.labels.rows import LabelSource
from rubric_judge.quality.rejudge import read_stored
from rubric_judge.quality.responses import AnswerCounts, read_judgements, read_responses
from rubric_judge.serve import JudgeService, ServeConfig, build_app

TASK = Task(
    question="Which loss is minimised?",
    grounding=Grounding("The model minimises the cross entropy of the labels."),
    rubric=Rubric(
        criteria=(Criterion(id="loss", weight=2, required_elements=("cross entropy",)),)
    ),
)
GOOD = "It is the cross entropy."
SAID = "I do not know."
COMPLETIONS = (
    f"<think>{GOOD}</think>{SAID}",
    f"<think>{SAID}</think>{GOOD}",
    f"<think>{GOOD}",
    " ",
    GOOD,
)
REWARDS = (0.0, 1.0, 0.0, 0.0, 1.0)
THOUGHTS = ("closed", "closed", "unclosed", "none", "none")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_tasks(tmp_path / "tasks.jsonl", [TASK])
    (tmp_path / "judge.yaml").write_text("type: lexical\n", "utf-8")
    lines({"response": one} for one in COMPLETIONS)
    return tmp_path


def lines(rows: Any, name: str = "answers.jsonl") -> Path:
    text = "".join(json.dumps({"task_id": TASK.task_id, **row}) + "\n" for row in rows)
    Path(name).write_text(text, "utf-8")
    return Path(name)


def run(*words: str) -> int:
    with (
        patch("sys.argv", ["rubric-judge", *words]),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return int(ended.value.code or 0)


SCORE = (
    "score",
    "tasks.jsonl",
    "answers.jsonl",
    "--judge",
    "judge.yaml",
    "--out",
    "judged.jsonl",
)


@pytest.mark.usefixtures("folder")
def test_score_judges_answers_and_says_what_stood_before_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(*SCORE) == 0

    rows = [row for _, row in read_judgements(Path("judged.jsonl"))]
    assert tuple(row.reward for row in rows) == REWARDS
    assert tuple(row.thought for row in rows) == THOUGHTS
    why = [None, None, "unclosed_thought", "empty_answer", None]
    assert [row.result.unanswered for row in rows] == why
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("with a thought 3 (60.0%)", "that does not end 1 (20.0%)",
                  "empty answers 1 (20.0%)"):  # fmt: skip
        assert words in shown


@pytest.mark.usefixtures("folder")
def test_score_warns_where_most_thoughts_do_not_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines({"response": one} for one in ("<think>a", "<think>b", GOOD))

    assert run(*SCORE) == 0
    assert "2 of 3 responses are thoughts that do not end" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("thoughts", "rewards"),
    [
        ("kept", (0.0, 0.0, 1.0, 0.0, 1.0)),
        ("opened", (0.0, 1.0, 0.0, 0.0, 0.0)),
        ('{"open": "<hm>", "close": "</hm>"}', (0.0, 0.0, 1.0, 0.0, 1.0)),
    ],
)
def test_an_option_says_how_thoughts_are_told(
    thoughts: str, rewards: tuple[float, ...]
) -> None:
    assert run(*SCORE, "--thoughts", thoughts) == 0
    assert (
        tuple(row.reward for _, row in read_judgements(Path("judged.jsonl"))) == rewards
    )


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("thoughts", "told"),
    [
        ("drop", "'drop' is no way to tell thoughts"),
        ('{"open": "a"}', "field 'close': is missing"),
    ],
)
def test_a_wrong_option_says_what_to_give(
    thoughts: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*SCORE, "--thoughts", thoughts) == 2
    assert told in " ".join(capsys.readouterr().err.split())


@pytest.mark.usefixtures("folder")
def test_an_answer_that_is_stored_with_its_thought_is_not_cut_again() -> None:
    file = lines(
        [
            {"text": "See <think>.", "thought": "none"},
            {"text": "", "thought": "unclosed"},
            {"response": f"<think>a</think>{GOOD}", "thought": "I wondered about it."},
        ]
    )

    views = [view for _, view in read_responses(file, {TASK.task_id: TASK})]

    assert [(view.response, view.thought) for view in views] == [
        ("See <think>.", "none"), ("", "unclosed"), (GOOD, "closed"),
    ]  # fmt: skip
    assert AnswerCounts.of(views) == AnswerCounts(
        responses=3, thoughts=2, unclosed=1, empty=0
    )


@pytest.mark.usefixtures("folder")
def test_what_is_judged_again_is_the_answer() -> None:
    assert run(*SCORE, "--ledger", "old.ledger", "--thoughts", "kept") == 0
    again = (
        "rejudge",
        "old.ledger",
        "tasks.jsonl",
        "--judge",
        "judge.yaml",
        "--out",
        "new.jsonl",
    )

    assert run(*again) == 0

    rows = [(row.thought, row.reward) for _, row in read_judgements(Path("new.jsonl"))]
    assert sorted(rows) == [
        ("closed", 0.0),
        ("closed", 1.0),
        ("none", 1.0),
        ("unclosed", 0.0),
    ]


@pytest.mark.usefixtures("folder")
def test_a_rollout_says_what_of_it_was_judged() -> None:
    Path("rollouts").mkdir()
    asked: dict[str, str] = {"prompt": TASK.question}
    rows = [
        {**asked, "id": "a", "response": "Hm.", "answer": "", "thought": "unclosed"},
        {
            **asked,
            "id": "b",
            "response": f"Hm.</think>{GOOD}",
            "answer": GOOD,
            "thought": "closed",
        },
        {**asked, "id": "c", "response": f"<think>Hm.</think>{GOOD}"},
    ]
    lines(rows, "rollouts/step_000001.jsonl")

    found = [
        one.answer._replace(close="") for one in read_stored(Path("rollouts").parent)
    ]

    assert found == [
        Answer("", Thought.UNCLOSED), Answer(GOOD, Thought.CLOSED), Answer(GOOD, Thought.CLOSED),
    ]  # fmt: skip


@pytest.mark.usefixtures("folder")
def test_labels_of_another_tool_find_the_response_by_all_that_it_wrote() -> None:
    tasks = {TASK.task_id: TASK}
    views = dict(read_responses(Path("answers.jsonl"), tasks))
    place = Place(Path("scores.csv"), 2)
    given = ForeignScore(place, "loss", "2", "ann", None, TASK.task_id, COMPLETIONS[0])

    (label,) = import_scores([given], LabelSource(tasks, views), rater=None)

    assert (label.line, label.score) == (1, 2.0)


@pytest.mark.anyio
async def test_a_service_judges_answers_and_counts_thoughts() -> None:
    def client(thoughts: Any) -> Any:
        config = ServeConfig(thoughts=thoughts)
        service = JudgeService(
            JudgePool(LexicalJudge()), {TASK.task_id: TASK}, config=config
        )
        transport = httpx.ASGITransport(build_app(service))
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")

    items = [{"task_id": TASK.task_id, "response": one} for one in COMPLETIONS]
    prompt = "<|im_start|>assistant\n<think>\n"
    queries = [f"{prompt}{GOOD}", f"{prompt}{SAID}</think>{GOOD}<|im_end|>"]
    rewarding = {
        "query": queries,
        "prompts": [prompt] * 2,
        "labels": [TASK.task_id] * 2,
    }
    async with client("cut") as cut, client("kept") as kept:
        found = (await cut.post("/v1/judge", json={"items": items})).json()["results"]
        whole = (await kept.post("/v1/judge", json={"items": items})).json()["results"]
        reward = (await cut.post("/openrlhf", json=rewarding)).json()
        metrics = (await cut.get("/metrics")).text

    assert tuple(one["reward"] for one in found) == REWARDS
    assert tuple(one["thought"] for one in found) == THOUGHTS
    assert [one["unanswered"] for one in found][2:4] == [
        "unclosed_thought",
        "empty_answer",
    ]
    assert [one["reward"] for one in whole] == [0.0, 0.0, 1.0, 0.0, 1.0]
    assert reward["rewards"] == [0.0, 1.0]
    assert reward["extra_logs"]["rubric/unclosed_thought"] == [1.0, 0.0]
    assert 'rubric_judge_thoughts_total{thought="unclosed"} 2.0' in metrics
    assert 'rubric_judge_unanswered_total{why="unclosed_thought"} 2.0' in metrics
