"""Thresholds from labels: worked p-values, planted judges, the command, and what it refuses."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from rubric_core import (
    ConfigError,
    Criterion,
    CriterionKind,
    Grounding,
    JudgeResult,
    JudgeView,
    Reason,
    RewardError,
    Rubric,
    Task,
    write_tasks,
)
from rubric_core.configuration import config_error
from rubric_judge import CascadeConfig, Ledger
from rubric_judge.cli import app
from rubric_judge.cli.cascade import print_thresholds
from rubric_judge.judges.cascade.record import CascadeCalibration, Threshold
from rubric_judge.quality.calibration.cascade import CascadeRun, calibrate_cascade
from rubric_judge.quality.calibration.target import CascadeTarget
from rubric_judge.quality.calibration.thresholds import GRID, p_value, risk_test
from rubric_judge.quality.labels.rows import Label
from rubric_judge.testing import FailingJudge, ScriptedJudge

pytestmark = pytest.mark.anyio


def _losses(wrong: int, n: int) -> np.ndarray:
    return np.array([1.0] * wrong + [0.0] * (n - wrong))


def test_the_exact_p_value_and_its_bound_are_those_of_clopper_and_pearson() -> None:
    found = risk_test(_losses(3, 100), risk=0.1, delta=0.05)

    assert found.p_value == pytest.approx(stats.binomtest(3, 100, 0.1, "less").pvalue)
    # The one-sided 95 % bound is the upper end of the two-sided 90 % interval.
    expected = stats.binomtest(3, 100).proportion_ci(0.9, "exact").high
    assert found.bound == pytest.approx(expected, abs=1e-9)
    assert risk_test(_losses(0, 29), risk=0.1, delta=0.05).p_value == pytest.approx(
        0.9**29
    )


def test_the_hoeffding_bentkus_p_value_by_hand() -> None:
    losses = np.array([0.5] * 10 + [0.0] * 90)  # mean .05
    divergence = 0.05 * np.log(0.05 / 0.1) + 0.95 * np.log(0.95 / 0.9)
    expected = min(np.exp(-100 * divergence), np.e * stats.binom.cdf(5, 100, 0.1))

    assert p_value(losses, 0.1) == pytest.approx(expected)
    assert p_value(losses, 0.05) == 1.0


@given(
    st.integers(1, 60),
    st.integers(0, 60),
    st.sampled_from([1.0, 0.5]),
    st.floats(0.01, 0.4),
)
def test_the_bound_is_where_the_test_turns(
    n: int, wrong: int, scale: float, delta: float
) -> None:
    losses = _losses(min(wrong, n), n) * scale

    bound = risk_test(losses, risk=0.5, delta=delta).bound

    assert float(np.mean(losses)) <= bound <= 1
    if bound < 0.999:
        assert p_value(losses, bound + 1e-6) <= delta + 1e-4
        assert p_value(losses, bound - 1e-4) >= delta - 1e-9 or bound < 2e-4


CLAIM = Criterion(id="claim", weight=2.0, description="Is right.")
PROOF = Criterion(id="proof", weight=1.0, description="Is proved.")
RUBRIC = Rubric(criteria=(CLAIM, PROOF))
CONFIG = CascadeConfig.model_validate(
    {
        "judges": [{"type": "plugin", "name": "a"}, {"type": "plugin", "name": "b"}],
        "uncertainty": "margin",
        "audit_frac": 0.0,
    }
)


def _by_response(**given: Any) -> CascadeTarget:
    """All planted responses are of one document."""
    return CascadeTarget(unit="response", **given)


def _planted(
    n: int,
    *,
    seed: int = 1,
    criteria: tuple[Criterion, ...] = (CLAIM,),
    hard: float = 0.3,
) -> tuple[list[tuple[int, JudgeView]], list[Label], ScriptedJudge, ScriptedJudge]:
    """Responses that say what is true of them and what the cheap judge thinks.

    Of the easy ones it is sure (z = .05 or .95) and right but for 2 %; of the hard ones it is
    unsure (z = .3 or .7) and right half of the time. The last judge is right but for 3 %.
    """
    rng = random.Random(seed)
    rubric = Rubric(criteria=criteria)
    views: list[tuple[int, JudgeView]] = []
    labels: list[Label] = []
    for line in range(1, n + 1):
        marks: dict[str, tuple[float, float]] = {}
        for criterion in criteria:
            truth, is_hard = rng.random() < 0.5, rng.random() < hard
            cheap_right = rng.random() < (0.5 if is_hard else 0.98)
            said = truth if cheap_right else not truth
            share = (0.7 if said else 0.3) if is_hard else (0.95 if said else 0.05)
            last = float(truth if rng.random() < 0.97 else not truth)
            marks[criterion.id] = share, last
            score = criterion.weight * truth
            labels.append(
                Label(line=line, task_id=f"t{line % 40}", criterion=criterion.id, score=score,
                      rater="ann")
            )  # fmt: skip
        view = JudgeView(
            task_id=f"t{line % 40}", question="?", grounding=Grounding("g"),
            response=json.dumps([line, marks]), rubric=rubric,
        )  # fmt: skip
        views.append((line, view))

    def says(place: int) -> Callable[[JudgeView], dict[str, float]]:
        def script(view: JudgeView) -> dict[str, float]:
            marks = json.loads(view.response)[1]
            return {c.id: c.weight * marks[c.id][place] for c in view.rubric}

        return script

    return (
        views,
        labels,
        ScriptedJudge(says(0), name="cheap"),
        ScriptedJudge(says(1), name="last"),
    )


async def test_the_threshold_lies_between_what_is_known_and_what_is_guessed() -> None:
    views, labels, cheap, last = _planted(600)

    found = await calibrate_cascade(
        CascadeRun((cheap, last), CONFIG, None),
        labels,
        views,
        _by_response(risk=0.06),
    )

    assert found.pooled is not None
    # Of the sure ones u is .1, of the unsure .6: up to .55 nothing changes.
    assert found.pooled.threshold == 0.55
    assert found.pooled.n == 600
    assert found.pooled.risk < found.pooled.bound <= 0.06
    assert 0.25 < found.pooled.escalated < 0.35
    assert found.judges == ("cheap", "last")
    assert (found.risk, found.confidence, found.unit) == (0.06, 0.95, "response")
    assert len(last.calls) < 600 * 15  # without a ledger each threshold asks anew


async def test_a_fixed_sequence_stops_at_the_first_that_is_not_rejected() -> None:
    views, labels, cheap, last = _planted(600)
    asked: list[float | None] = []

    found = await calibrate_cascade(
        CascadeRun((cheap, last), CONFIG, None),
        labels,
        views,
        _by_response(risk=0.06),
        on_threshold=asked.append,
    )

    assert found.pooled is not None
    assert asked == [*GRID[: GRID.index(found.pooled.threshold) + 1], 0.6]
    assert len(asked) < len(GRID)
    assert GRID[0] is None
    assert GRID[1:] == tuple(sorted(GRID[1:]))


async def test_with_a_ledger_no_answer_is_asked_for_twice(tmp_path: Path) -> None:
    views, labels, cheap, last = _planted(200, criteria=(CLAIM, PROOF))
    target = _by_response(risk=0.12)
    with Ledger(tmp_path / "ledger") as ledger:
        run = CascadeRun((cheap, last), CONFIG, ledger)
        found = await calibrate_cascade(run, labels, views, target)
        calls = len(cheap.calls), len(last.calls)

        assert calls[0] == 200
        assert calls[1] <= 200 * 3  # both criteria, and each alone
        assert await calibrate_cascade(run, labels, views, target) == found
        assert (len(cheap.calls), len(last.calls)) == calls


async def test_each_criterion_may_have_its_threshold(tmp_path: Path) -> None:
    views, labels, cheap, _ = _planted(500, criteria=(CLAIM, PROOF), hard=0.2)
    # People contradict the cheap judge on a quarter of the proofs that it is sure of.
    marks = [json.loads(view.response)[1] for _, view in views]
    truth: dict[int, dict[str, float]] = {}
    turned: list[Label] = []
    for label in labels:
        score, is_sure = (
            label.score or 0.0,
            marks[label.line - 1]["proof"][0] in {0.05, 0.95},
        )
        if label.criterion == "proof" and is_sure and label.line % 4 == 0:
            score = 1.0 - score
        truth.setdefault(label.line, {})[label.criterion] = score
        turned.append(label.model_copy(update={"score": score}))

    def last_is_right(view: JudgeView) -> dict[str, float]:
        known = truth[json.loads(view.response)[0]]
        return {c.id: known[c.id] for c in view.rubric}

    best = ScriptedJudge(last_is_right, name="best")
    with Ledger(tmp_path / "ledger") as ledger:
        found = await calibrate_cascade(
            CascadeRun((cheap, best), CONFIG, ledger),
            turned,
            views,
            _by_response(risk=0.05, per_criterion=True),
        )

    assert found.pooled is None
    assert found.criteria["claim"].threshold == 0.55
    assert found.criteria["proof"].threshold == 0.05  # nothing it says is kept
    assert found.criteria["proof"].escalated == 1.0
    assert found.bound <= 0.05


async def test_responses_of_a_task_may_count_as_one() -> None:
    views, labels, cheap, last = _planted(400)

    found = await calibrate_cascade(
        CascadeRun((cheap, last), CONFIG, None),
        labels,
        views,
        CascadeTarget(risk=0.2, unit="task"),
    )

    assert found.pooled is not None
    assert found.pooled.n == 40


async def test_responses_of_a_document_count_as_one_unless_it_is_said_otherwise() -> (
    None
):
    views, labels, cheap, last = _planted(400)
    documents = {f"t{number}": f"d{number % 20}" for number in range(40)}
    target = CascadeTarget(risk=0.3)

    found = await calibrate_cascade(
        CascadeRun((cheap, last), CONFIG, None),
        labels,
        views,
        target,
        documents=documents,
    )

    assert target.unit == found.unit == "document"
    assert found.pooled is not None
    assert found.pooled.n == 20


async def test_a_last_judge_beyond_the_risk_is_refused() -> None:
    views, labels, cheap, _ = _planted(300)
    wrong = ScriptedJudge(0.0, name="wrong")
    run = CascadeRun((cheap, wrong), CONFIG, None)

    with pytest.raises(ConfigError) as caught:
        await calibrate_cascade(run, labels, views, _by_response(risk=0.1))

    assert "the last judge alone is not shown to keep to it: it contradicts" in str(
        caught.value
    )
    views, labels, cheap, last = _planted(20)
    with pytest.raises(ConfigError, match=r"label more \(at least 29 responses\)"):
        await calibrate_cascade(
            CascadeRun((cheap, last), CONFIG, None),
            labels,
            views,
            _by_response(risk=0.1),
        )


async def test_where_no_threshold_will_do_everything_is_escalated() -> None:
    views, labels, _, last = _planted(300)
    liar = ScriptedJudge(
        lambda view: {
            c.id: c.weight * (1 - json.loads(view.response)[1][c.id][1])
            for c in view.rubric
        },
        name="liar",
    )

    found = await calibrate_cascade(
        CascadeRun((liar, last), CONFIG, None),
        labels,
        views,
        _by_response(risk=0.1),
    )

    assert found.pooled is not None
    assert (found.pooled.threshold, found.pooled.escalated) == (None, 1.0)


async def test_raters_are_averaged_and_those_who_could_not_tell_left_out() -> None:
    views, labels, cheap, last = _planted(100)
    more = [
        label.model_copy(update={"rater": "bob", "score": None}) for label in labels
    ]
    run = CascadeRun((cheap, last), CONFIG, None)

    both = await calibrate_cascade(
        run, [*labels, *more], views, _by_response(risk=0.15)
    )

    assert both == await calibrate_cascade(run, labels, views, _by_response(risk=0.15))
    with pytest.raises(ConfigError, match="hold no score of a criterion with weight"):
        await calibrate_cascade(run, more, views, _by_response(risk=0.15))


async def test_judges_that_are_not_reached_are_no_verdict() -> None:
    views, labels, cheap, _ = _planted(30)
    with pytest.raises(ConfigError, match="were not reached for any labelled response"):
        await calibrate_cascade(
            CascadeRun((cheap, FailingJudge()), CONFIG, None),
            labels,
            views,
            _by_response(),
        )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"risk": 0.0}, "risk: must be above 0, not 0.0"),
        ({"risk": 1.0}, "risk: must be below 1, not 1.0"),
        ({"risk": float("nan")}, "risk: needs a finite number, not nan"),
        ({"confidence": 1.0}, "confidence: must be below 1, not 1.0"),
        ({"confidence": 0.5}, "confidence: must be above 0.5, not 0.5"),
        ({"tolerance": 0.0}, "tolerance: must be above 0, not 0.0"),
    ],
)
def test_targets_out_of_bounds_are_refused(
    changes: dict[str, float], said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        _by_response(**changes)

    told = str(config_error(caught.value, model=CascadeTarget, source="the options"))
    assert told.startswith(f"the options: {said}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Tasks whose criterion a program judges, responses, labels and a cascade of programs."""
    rubric = Rubric(
        criteria=(
            Criterion(
                id="drag", weight=2.0, verification_method="contains_all: drag | mass"
            ),
        )
    )
    tasks = [
        Task(question=f"{n}?", grounding=Grounding(f"{n}."), rubric=rubric)
        for n in range(60)
    ]
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    with (
        (tmp_path / "answers.jsonl").open("w", encoding="utf-8") as answers,
        (tmp_path / "labels.jsonl").open("w", encoding="utf-8") as labels,
    ):
        for line, task in enumerate(tasks, start=1):
            words = ("drag and mass", "drag", "nothing")[line % 3]
            row = {"task_id": task.task_id, "response": f"The {words} {line} holds it."}
            answers.write(json.dumps(row) + "\n")
            label = {"line": line, "task_id": task.task_id, "criterion": "drag", "rater": "ann",
                     "score": 2.0 * (line % 3 == 0)}  # fmt: skip
            labels.write(json.dumps(label) + "\n")
    (tmp_path / "cascade.yaml").write_text(
        "type: cascade\nuncertainty: margin\naudit_frac: 0\ncalibration: cascade.json\n"
        "judges:\n- type: lexical\n- {type: lexical, regex_timeout_s: 0.5}\n",
        encoding="utf-8",
    )
    return tmp_path


def _run(folder: Path, command: str, **changes: str) -> int:
    flags = {
        "labels": "labels.jsonl", "judge": "cascade.yaml", "out": ".", **changes,
    }  # fmt: skip
    words = [command, str(folder / "tasks.jsonl"), str(folder / "answers.jsonl")]
    words += ["--cascade"] * (command == "calibrate")
    for name, value in flags.items():
        if value:
            path = name in {"labels", "judge", "out", "ledger"}
            words += [f"--{name}", str(folder / value) if path else value]
    return app(words, result_action="return_value")


def test_the_command_writes_what_score_then_uses(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(folder, "calibrate", risk="0.3") == 0

    out = capsys.readouterr().out
    assert "risk ≤ 0.3 with probability 0.95" in out
    written = json.loads((folder / "cascade.json").read_text())
    assert (written["pooled"]["n"], written["k"]) == (60, 1)
    assert _run(folder, "score", labels="", out="judged.jsonl") == 0
    printed = capsys.readouterr()
    assert "criteria decided by" in printed.out
    assert re.search(r"\bof \d+,\s+asked\s+\d+\s+times?\b", printed.out)
    (count,) = re.findall(r"\bescalated +(\d+) of", printed.out)
    assert ("nothing was escalated" in printed.err) is (count == "0")
    row = json.loads((folder / "judged.jsonl").read_text().splitlines()[0])
    assert row["result"]["cascade"]["decided_by"].keys() == {"drag"}


def test_labels_of_one_class_are_said_to_be(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(folder, "calibrate", risk="0.3") == 0
    assert "every label is" not in capsys.readouterr().err

    rows = [
        json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()
    ]
    unmet = [json.dumps(row) for row in rows if not row["score"]]
    (folder / "labels.jsonl").write_text("\n".join(unmet))
    assert _run(folder, "calibrate", risk="0.3") == 0
    told = "all: every label is unmet: nothing is promised of what is met: label some"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("threshold", [None, 0.95])
def test_it_is_said_where_everything_goes_to_the_last_judge(
    capsys: pytest.CaptureFixture[str], threshold: float | None
) -> None:
    one = Threshold(
        threshold=threshold, n=60, risk=0.1, bound=0.2, escalated=1, last_risk=0.1
    )
    found = CascadeCalibration(
        version=1, judges=("a", "b"), uncertainty="margin", k=1, audit_frac=0.05, unit="response",
        risk=0.3, confidence=0.95, pooled=one,
    )  # fmt: skip

    print_thresholds(found, Path("cascade.json"), {"drag": {True, False}})

    printed = capsys.readouterr()
    assert printed.err.endswith(": everything goes to the last judge\n")
    assert "nothing is kept" in printed.out


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("criterion", "lift", "has no criterion 'lift', but drag"),
        ("score", 2.5, "2.5 is more than the criterion's weight 2"),
        ("task_id", "none", "no task has the id 'none'"),
    ],
)
def test_labels_that_do_not_fit_are_refused(
    folder: Path, place: str, value: object, said: str
) -> None:
    from rubric_core.errors import RubricFileError

    rows = (folder / "labels.jsonl").read_text().splitlines()
    rows[4] = json.dumps(json.loads(rows[4]) | {place: value})
    (folder / "labels.jsonl").write_text("\n".join(rows))

    with pytest.raises(RubricFileError, match=r"labels\.jsonl.*5") as caught:
        _run(folder, "calibrate", risk="0.3")

    assert said in str(caught.value)
    assert not (folder / "cascade.json").exists()


def test_the_command_takes_cascades_alone(folder: Path) -> None:
    (folder / "cascade.yaml").write_text("type: lexical\n")

    with pytest.raises(
        ConfigError, match="is of `type: lexical`: give a file of `type: cascade`"
    ):
        _run(folder, "calibrate", risk="0.3")


def test_labels_of_several_files_count_together(folder: Path) -> None:
    rows = [
        json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()
    ]
    for name, part in (("first", rows[:35]), ("rest", rows[35:])):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, part)))
    (folder / "out").mkdir()

    words = ["--labels", str(folder / "first.jsonl"), "--risk", "0.3"]
    found: list[int] = []
    for more in ([], ["--labels", str(folder / "rest.jsonl")]):
        files = [str(folder / name) for name in ("tasks.jsonl", "answers.jsonl")]
        judge = [
            "--cascade",
            "--judge",
            str(folder / "cascade.yaml"),
            "--out",
            str(folder / "out"),
        ]
        assert (
            app(
                ["calibrate", *files, *words, *more, *judge],
                result_action="return_value",
            )
            == 0
        )
        found.append(
            json.loads((folder / "out/cascade.json").read_text())["pooled"]["n"]
        )

    assert found == [35, 60]


async def test_judges_that_never_answer_validly_are_not_certified() -> None:
    views, labels, cheap, _ = _planted(40)
    unmet = [
        label.model_copy(update={"score": 0.0}) for label in labels
    ]  # as an invalid answer
    broken = FailingJudge(Reason.NOT_JSON)

    with pytest.raises(ConfigError, match="every answer of the judges was invalid"):
        await calibrate_cascade(
            CascadeRun((cheap, broken), CONFIG, None),
            unmet,
            views,
            _by_response(risk=0.3),
        )


async def test_the_share_of_invalid_answers_is_told() -> None:
    views, labels, cheap, last = _planted(200)
    broken = FailingJudge(Reason.NOT_JSON)

    class Sometimes:
        name = "sometimes"

        async def judge(self, view: JudgeView) -> JudgeResult:
            asked = broken if json.loads(view.response)[0] % 10 == 0 else last
            return await asked.judge(view)

    config = CONFIG.model_copy(
        update={"audit_frac": 1.0}
    )  # the last judge sees them all
    found = await calibrate_cascade(
        CascadeRun((cheap, Sometimes()), config, None),
        labels,
        views,
        _by_response(risk=0.3),
    )

    assert found.pooled is not None
    assert found.pooled.invalid_frac == 0.1


async def test_a_judge_that_stands_twice_draws_afresh_at_its_last_place(
    tmp_path: Path,
) -> None:
    views, labels, cheap, _ = _planted(60)
    config = CONFIG.model_copy(update={"k": 2})
    label = {one.line: one.score for one in labels}

    def right(view: JudgeView) -> dict[str, float]:
        return {c.id: label[json.loads(view.response)[0]] or 0.0 for c in view.rubric}

    same = ScriptedJudge(right, name="same")
    calls: list[int] = []
    with Ledger(tmp_path / "ledger") as ledger:
        for _ in range(2):
            run = CascadeRun((same, cheap, same), config, ledger)
            await calibrate_cascade(run, labels, views, _by_response(risk=0.2))
            calls.append(len(same.calls))

    assert calls == [
        3 * 60,
        3 * 60,
    ]  # two answers first, one of its own last; then all known


@pytest.mark.parametrize(
    ("losses", "risk", "delta", "told"),
    [
        (np.array([]), 0.1, 0.05, "n is 0"),
        (np.array([0.0, 1.5]), 0.1, 0.05, "a loss is not in"),
        (np.array([0.0, np.nan]), 0.1, 0.05, "a loss is not in"),
        (np.zeros(9), 0.1, 1.0, r"delta must be in \(0, 0\.5\], not 1\.0"),
        (np.zeros(9), 0.1, 0.0, "delta must be in"),
        (np.zeros(9), 1.0, 0.05, r"risk must be in \(0, 1\), not 1\.0"),
    ],
)
def test_what_cannot_be_tested_is_refused(
    losses: np.ndarray, risk: float, delta: float, told: str
) -> None:
    with pytest.raises(RewardError, match=told):
        risk_test(losses, risk=risk, delta=delta)


async def test_ids_that_do_not_repeat_share_a_threshold_by_kind() -> None:
    """Each response is of a task of its own, whose criterion has an id of its own."""
    kinds = (CriterionKind.CAUSE, CriterionKind.LIMIT)
    views: list[tuple[int, JudgeView]] = []
    labels: list[Label] = []
    for line in range(1, 201):
        criterion = Criterion(id=f"free_{line}", weight=1.0, kind=kinds[line % 2])
        task = Task(
            question=f"Question {line}?",
            grounding=Grounding(f"Passage {line}."),
            rubric=Rubric(criteria=(criterion,)),
        )
        views.append((line, task.judge_view("An answer.")))
        labels.append(
            Label(
                line=line,
                task_id=task.task_id,
                criterion=criterion.id,
                score=1.0,
                rater="anna",
            )
        )
    judges = [ScriptedJudge(1.0, name=name) for name in ("cheap", "last")]
    found = await calibrate_cascade(
        CascadeRun(judges, CONFIG, None),
        labels,
        views,
        CascadeTarget(risk=0.1, per_criterion=True),
    )

    assert {name: one.n for name, one in found.criteria.items()} == {
        "kind.cause": 100,
        "kind.limit": 100,
    }
    again = CascadeCalibration.model_validate_json(found.model_dump_json())
    assert again == found
    new = Criterion(id="new", weight=1.0, kind=kinds[0])
    assert again.threshold(new) == found.criteria["kind.cause"].threshold == 1.0
    assert again.threshold(new.model_copy(update={"kind": CriterionKind.STEP})) is None


def test_a_cascade_of_an_older_version_is_read_by_id() -> None:
    """And has the fingerprint that it had: what it holds is the same."""
    one = Threshold(threshold=0.4, n=9, risk=0, bound=0.1, escalated=0, last_risk=0)
    assert "pool" not in one.model_dump()
    found = CascadeCalibration(
        version=1,
        judges=("a", "b"),
        uncertainty="margin",
        k=1,
        audit_frac=0,
        unit="task",
        risk=0.1,
        confidence=0.95,
        criteria={"claim": one},
    )
    of_kind = CLAIM.model_copy(update={"kind": CriterionKind.CAUSE})
    assert found.threshold(CLAIM) == found.threshold(of_kind) == 0.4
    assert found.threshold(PROOF) is None
