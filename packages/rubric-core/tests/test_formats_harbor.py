"""Task folders of Harbor, and judge files of Reward Kit in their tests."""

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rubric_core import Criterion, Grounding, Rubric, RubricFileError, Task, write_tasks
from rubric_core.formats import Imported, ImportOptions, import_tasks, is_penalty

QUALITY = """\
[judge]
judge = "anthropic/claude-opus-5-5"
files = ["/app/main.py"]

[[criterion]]
description = "Is it right?"
weight = 3.0

[[criterion]]
description = "How clear is it?"
type = "likert"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One task, with one judge file."""
    task = tmp_path / "tasks" / "one"
    write(
        task, "instruction.md", "<!-- harbor-canary GUID 1 -->\n\nWrite /app/main.py.\n"
    )
    write(task, "task.toml", 'schema_version = "1.4"\n[task]\nname = "us/one"\n')
    write(task, "environment/Dockerfile", "FROM python:3.12-slim\n")
    write(task, "tests/test.sh", "uvx --from harbor-rewardkit rewardkit /tests\n")
    write(task, "tests/quality.toml", QUALITY)
    return task


def write(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def read(folder: Path, *leave_out: str, notes: list[str] | None = None) -> Imported:
    options = ImportOptions(leave_out=leave_out)
    on_note = None if notes is None else notes.append
    (task,) = import_tasks("harbor", folder, options=options, on_note=on_note)
    return task


def weights(imported: Imported) -> list[float]:
    return [round(criterion.weight, 9) for criterion in imported.task.rubric]


def test_an_instruction_and_its_judge_file_are_a_task(folder: Path) -> None:
    for place in (folder, folder.parent, folder.parent.parent):
        found = read(place)

    assert found.source_id == "us/one"
    assert found.task.question == "Write /app/main.py."
    assert weights(found) == [3, 1]
    assert found.task.rubric["c2"].scoring_guide.startswith("Rate from 1 to 5")
    assert found.fields is not None
    left_out = {entry.field: count for entry, count in found.fields.left_out.items()}
    assert left_out == {
        "config": 1,
        "**.judge.judge": 1,
        "**.judge.files": 1,
        "programs": 1,
        "files": 1,
    }


def test_files_weigh_as_reward_toml_says(folder: Path) -> None:
    write(
        folder, "tests/style/tone.toml", '[[criterion]]\ndescription = "Is it kind?"\n'
    )
    write(
        folder,
        "tests/style/form.toml",
        '[judge]\nweight = 3\n[[criterion]]\ndescription = "Short?"\n',
    )
    notes: list[str] = []

    alike = read(folder, notes=notes)
    write(
        folder,
        "tests/reward.toml",
        '[[reward]]\nname = "reward"\nweights = { quality = 1, style = 4 }\n\n'
        '[[reward]]\nname = "other"\naggregation = "all-pass"\n',
    )
    weighed = read(folder)

    by_text = {c.description: c.weight for c in alike.task.rubric}
    assert by_text == {
        "Is it kind?": 12.5,
        "Short?": 37.5,
        "Is it right?": 37.5,
        "How clear is it?": 12.5,
    }
    by_text = {c.description: c.weight for c in weighed.task.rubric}
    assert by_text == {
        "Is it kind?": 20,
        "Short?": 60,
        "Is it right?": 15,
        "How clear is it?": 5,
    }
    (note,) = notes
    assert "several dimensions and no [[reward]] named 'reward'" in note
    assert weighed.fields is not None
    assert {e.field for e in weighed.fields.left_out} >= {"tests.reward_toml.reward.*"}


def test_polarity_is_kept(folder: Path) -> None:
    write(
        folder,
        "tests/quality.toml",
        '[scoring]\naggregation = "weighted_sum"\n'
        '[[criterion]]\ndescription = "A"\nweight = 2\n'
        '[[criterion]]\ndescription = "B"\nweight = -1\n'
        '[[criterion]]\ndescription = "C"\nnegate = true\n'
        '[[criterion]]\ndescription = "D"\nweight = -1\n'
        'annotations = { type = "negative hli verifier" }\n',
    )

    rubric = read(folder).task.rubric

    assert [c.weight for c in rubric] == [2, 1, 1, 1]
    assert [is_penalty(c) for c in rubric] == [False, True, False, False]
    # D weighs −1 where it does not hold: that orders answers as +1 where it does.
    assert [c.description for c in rubric] == [
        "A",
        "To avoid: B",
        "Must not hold: C",
        "D",
    ]


def test_a_reference_in_the_tests_is_read_and_no_other(folder: Path) -> None:
    text = QUALITY.replace("[judge]", '[judge]\nreference = "/tests/gold.md"')
    write(folder, "tests/quality.toml", text)
    write(folder, "tests/gold.md", "Forty-two.")

    assert read(folder).task.reference_answer == "Forty-two."

    for elsewhere in ("/solution/gold.md", "/tests/../task.toml", "/tests/lost.md"):
        write(folder, "tests/quality.toml", text.replace("/tests/gold.md", elsewhere))
        with pytest.raises(
            RubricFileError, match=r"judge\.reference is read by nothing"
        ):
            read(folder)
        assert read(folder, "tests.*.judge.reference").task.reference_answer is None
    write(folder, "tests/quality.toml", text)
    write(folder, "tests/more.toml", text.replace("gold", "other"))
    write(folder, "tests/other.md", "Forty-three.")
    with pytest.raises(RubricFileError, match="a second reference of one question"):
        read(folder)


def test_programs_are_named_once(folder: Path) -> None:
    for name in ("one", "two"):
        for file in ("instruction.md", "task.toml", "tests/quality.toml"):
            write(folder.parent / name, file, (folder / file).read_text())
        write(
            folder.parent / name, "tests/checks/files.py", "criteria.file_exists('a')"
        )
    notes: list[str] = []

    found = list(import_tasks("harbor", folder.parent, on_note=notes.append))

    assert len(found) == 2
    (note,) = notes
    assert "criteria that are programs (checks, files)" in note


def test_a_folder_written_here_comes_back_whole(folder: Path) -> None:
    rubric = Rubric(
        criteria=(Criterion(id="a", weight=1, name="", description="Is it right?"),)
    )
    task = Task(question="Q?", grounding=Grounding("The passage."), rubric=rubric)
    write_tasks(folder / "tests" / "rubric_task.jsonl", [task])

    found = read(folder)

    assert found.task == task
    assert found.source_id == "one"
    write_tasks(folder / "tests" / "rubric_task.jsonl", [task, task])
    with pytest.raises(RubricFileError, match="must hold one task, not 2"):
        read(folder)


BAD: dict[str, tuple[Mapping[str, str | None], str]] = {
    "no tests": ({"tests": None}, "there is no tests/ in it"),
    "only programs": (
        {"tests/quality.toml": None},
        r"no \.toml in it has a \[\[criterion\]\]",
    ),
    "no instruction": ({"instruction.md": None}, "there is no instruction.md"),
    "an empty instruction": (
        {"instruction.md": "# canary 1\n\n"},
        "a text under .*instruction",
    ),
    "no task.toml": ({"task.toml": None}, "there is no task.toml"),
    "steps": ({"task.toml": '[[steps]]\nname = "a"\n'}, r"\[\[steps\]\]"),
    "no TOML": ({"tests/quality.toml": "[judge\n"}, "quality.toml: not TOML: "),
    "not UTF-8": ({"tests/quality.toml": "caf\udce9"}, "quality.toml: not UTF-8: "),
    "another TOML": (
        {"tests/quality.toml": '[judge]\njudge = "a"\n[[criteria]]\nname = "a"\n'},
        r"criterion must be tables, \[\[criterion\]\]",
    ),
    "another type": (
        {"tests/quality.toml": '[[criterion]]\ndescription = "A"\ntype = "pairwise"\n'},
        r"quality\.toml:1: tests\.quality\.criterion\.0\.type must be `binary`",
    ),
    "a negative weight in a mean": (
        {"tests/quality.toml": '[[criterion]]\ndescription = "A"\nweight = -1\n'},
        r"weight must be 0 or more, as `scoring\.aggregation` is not 'weighted-sum'",
    ),
    "all must pass": (
        {"tests/quality.toml": QUALITY + '[scoring]\naggregation = "all-pass"\n'},
        r"scoring\.aggregation must be one of weighted-mean, weighted-sum",
    ),
    "all must pass, above": (
        {
            "tests/reward.toml": '[[reward]]\nname = "reward"\naggregation = "threshold"\n'
        },
        r"reward\.0\.aggregation must be one of",
    ),
    "weights of an unknown part": (
        {"tests/reward.toml": '[[reward]]\nname = "reward"\nweights = { tone = 1 }\n'},
        r"tone is no part of these tests, which are 'quality'",
    ),
    "a turn before": ({"trajectory.json": "{}"}, "trajectory is read by nothing here"),
    "a field nobody knows": (
        {"tests/quality.toml": QUALITY + 'rationale = "because"\n'},
        r"criterion\.\*\.rationale is read by nothing here",
    ),
    "two parts of a name": (
        {"tests/quality/form.toml": '[[criterion]]\ndescription = "A"\n'},
        "two parts are called 'quality'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named(folder: Path, case: str) -> None:
    changes, message = BAD[case]
    for name, text in changes.items():
        path = folder / name
        if text is not None:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
        elif path.is_dir():
            path.rename(folder.parent.parent / "moved")
        else:
            path.unlink()

    with pytest.raises(RubricFileError, match=message) as caught:
        read(folder)

    assert str(folder) in str(caught.value)
    rejected: list[RubricFileError] = []
    assert list(import_tasks("harbor", folder.parent, on_reject=rejected.append)) == []
    assert len(rejected) == 1


def test_a_link_to_a_folder_is_not_followed(folder: Path) -> None:
    write(folder, "tests/more/form.toml", '[[criterion]]\ndescription = "A"\n')
    (folder / "tests" / "more" / "up").symlink_to("..")

    with pytest.raises(RubricFileError, match="up is a link to a folder, which is not"):
        read(folder)


def test_a_folder_without_a_task_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        RubricFileError, match="no Harbor task: a task is a folder with"
    ):
        list(import_tasks("harbor", tmp_path))
    with pytest.raises(RubricFileError, match="not a folder"):
        list(import_tasks("harbor", tmp_path / "lost.toml"))


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_answers_are_ordered_as_by_reward_kit_itself(tmp_path: Path) -> None:
    """Random trees of tests: our reward is an increasing line of its, where it is installed."""
    runner = pytest.importorskip("rewardkit.runner", reason="asks for Python 3.12")
    rng = random.Random(0)
    for number in range(40):
        task = tmp_path / str(number)
        write(task, "instruction.md", "Q?")
        write(task, "task.toml", "")
        for file, text in trees(rng):
            write(task, f"tests/{file}", text)
        (found,) = import_tasks("harbor", task)
        rubric = found.task.rubric
        pairs: list[tuple[float, float]] = []
        for _ in range(12):
            layout = runner._discover_layout(task / "tests")
            raws = judge(runner, layout, rng)
            rewards, _ = runner._evaluate_layout(layout)
            scores = [c.weight * kept(c, raws[text_of(c)]) for c in rubric]
            pairs.append((rewards["reward"], sum(scores) / rubric.total_weight))
        xs, ys = zip(*pairs, strict=True)
        spread = max(xs) - min(xs)
        if spread < 0.01:
            continue
        low, high = xs.index(min(xs)), xs.index(max(xs))
        slope = (ys[high] - ys[low]) / spread
        assert slope > 0
        for x, y in pairs:  # it rounds to four places
            assert y == pytest.approx(
                ys[low] + slope * (x - xs[low]), abs=3e-4 * max(1, slope)
            )


def trees(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Yield the files of random tests, each criterion with a text of its own."""
    names = [f"{letter}.toml" for letter in "ab"[: rng.choice((1, 2))]]
    if rng.random() < 0.5:
        names += ["part/c.toml", "part/d.toml"]
    top = {name.split("/")[0].removesuffix(".toml") for name in names}
    for name in names:
        is_sum = rng.random() < 0.3
        lines = [f"[judge]\nweight = {rng.choice((0.5, 1, 3))}"]
        if is_sum:
            lines.append('[scoring]\naggregation = "weighted-sum"')
        for place in range(rng.choice((1, 2, 3))):
            weight = rng.choice((-2, -1, 1, 2.5)) if is_sum else rng.choice((0.5, 1, 4))
            lines.append(
                f'[[criterion]]\ndescription = "{name} {place}"\nname = "c{place}"\n'
                f"weight = {weight}\nnegate = {rng.choice(('true', 'false'))}"
            )
            if rng.random() < 0.5:
                lines.append('type = "likert"\npoints = 3')
        yield name, "\n".join(lines) + "\n"
    weights = ", ".join(f"{name} = {rng.choice((1, 2, 5))}" for name in sorted(top))
    yield "reward.toml", f'[[reward]]\nname = "reward"\nweights = {{ {weights} }}\n'


def judge(runner: Any, layout: Any, rng: random.Random) -> dict[str, float]:
    """Give each criterion a verdict, as the judge of Reward Kit would; return them by text."""
    judges = pytest.importorskip("rewardkit.judges")
    raws: dict[str, float] = {}
    for reward in runner._flatten_layout(layout):
        reply: dict[str, dict[str, object]] = {}
        for criterion in reward.criteria:
            is_binary = type(criterion.output_format).__name__ == "Binary"
            raw = rng.choice(("yes", "no")) if is_binary else rng.choice((1, 2, 3))
            reply[criterion.name] = {"score": raw, "reasoning": ""}
            raws[criterion.description] = criterion.output_format.normalize(raw)
        text = json.dumps(reply if len(reply) > 1 else next(iter(reply.values())))
        reward.scores = judges.parse_judge_response(
            text, reward.criteria, reward.weights
        )
    return raws


def text_of(criterion: Criterion) -> str:
    return criterion.description.removeprefix("To avoid: ").removeprefix(
        "Must not hold: "
    )


def kept(criterion: Criterion, value: float) -> float:
    """Return the share of the weight that a judge gives who reads the criterion as written."""
    return value if criterion.description == text_of(criterion) else 1 - value
