"""Every finding is shown by a task that has it and by one that almost has it."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
import structlog
from pyarrow import parquet

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_core.formats.draft import NO_PASSAGE
from rubric_judge import judge_spec
from rubric_judge.cli import main
from rubric_judge.quality.lint.claims import reads_claims
from rubric_judge.quality.lint.findings import Finding
from rubric_judge.quality.lint.run import lint_task, lint_tasks

PASSAGE = (
    "The pump raises the pressure of the water to 4.2 bar. A relief valve opens at 6 bar, and the "
    "filter cleans the water before it flows back into the vessel."
)
QUESTION = "How is the loop kept safe?"


def _criterion(key: str, description: str = "", **fields: Any) -> Criterion:
    return Criterion(**{"id": key, "weight": 1.0, "description": description, **fields})


def _task(
    *criteria: Criterion, question: str = QUESTION, passage: str = PASSAGE
) -> Task:
    return Task(
        question=question,
        grounding=Grounding(passage),
        rubric=Rubric(criteria=tuple(criteria)),
    )


PUMP = _criterion("pump", "Says what raises the pressure.", required_elements=("pump",))
VALVE = _criterion(
    "valve", "Says what opens at high pressure.", required_elements=("relief valve",)
)
FILTER = _criterion(
    "filter", "Says what cleans it.", expected_keywords=("filter", "cleans")
)

HITS_AND_MISSES: list[tuple[str, Task, Task]] = [
    (
        "no_words",
        _task(
            PUMP, _criterion("calm", "Is calm.", verification_method="sentences: first")
        ),
        _task(
            PUMP,
            _criterion(
                "short", "Is short.", verification_method="structure: count 1..2"
            ),
        ),
    ),
    (
        "zero_weight",
        _task(PUMP, _criterion("free", "Is polite and brief.", weight=0.0)),
        _task(PUMP, _criterion("cheap", "Is polite and brief.", weight=0.01)),
    ),
    (
        "dominant_weight",
        _task(PUMP, VALVE, _criterion("big", "Is right about all of it.", weight=3.0)),
        _task(PUMP, VALVE, _criterion("big", "Is right about all of it.", weight=2.0)),
    ),
    (
        "few_effective_criteria",
        _task(
            *[
                _criterion(f"heavy{n}", f"Names part number {n}.", weight=10.0)
                for n in range(2)
            ],
            *[
                _criterion(f"light{n}", f"Names colour number {n}.", weight=0.5)
                for n in range(4)
            ],
        ),
        _task(
            *[
                _criterion(f"heavy{n}", f"Names part number {n}.", weight=3.0)
                for n in range(2)
            ],
            *[
                _criterion(f"light{n}", f"Names colour number {n}.", weight=1.0)
                for n in range(4)
            ],
        ),
    ),
    (
        "similar_ids",
        _task(PUMP, _criterion("Pump ", "Names its maker.")),
        _task(PUMP, _criterion("pump_2", "Names its maker.")),
    ),
    (
        "empty_criterion",
        _task(PUMP, _criterion("blank", name="Blank")),
        _task(PUMP, _criterion("guided", scoring_guide="One for the maker.")),
    ),
    (
        "no_description",
        _task(PUMP, _criterion("terms", required_elements=("vessel",))),
        _task(
            PUMP, _criterion("terms", "Says where to.", required_elements=("vessel",))
        ),
    ),
    (
        "no_description",  # what a program executes needs none, what it only narrows does
        _task(PUMP, _criterion("where", verification_method="sentences: first")),
        _task(
            PUMP,
            _criterion("sum", verification_method="python_tests:\nassert 1 + 1 == 2"),
        ),
    ),
    (
        "refers_to_another",
        _task(
            PUMP, _criterion("next", "As in the previous criterion, but for the valve.")
        ),
        _task(
            PUMP,
            _criterion("next", "Uses the criterion of Nyquist in the sentence above."),
        ),
    ),
    (
        "duplicate_criterion",
        _task(
            _criterion("a", "The answer mentions the rising pressure of the water."),
            _criterion("b", "States clearly that the water's pressure rises."),
        ),
        _task(
            _criterion("a", "The answer mentions the rising pressure of the water."),
            _criterion("b", "The answer mentions the rising pressure of the steam."),
        ),
    ),
    (
        "duplicate_criterion",  # a pitfall worded as what must not be left out
        _task(
            _criterion("a", "Advises opening the relief valve by hand."),
            _criterion(
                "b", "To avoid: Fails to advise opening the relief valve by hand."
            ),
        ),
        _task(
            _criterion("a", "States the gain of the loop at 10 Hz."),
            _criterion("b", "States the gain of the loop at 20 Hz."),
        ),
    ),
    (
        "contradiction",
        _task(
            _criterion("a", "The answer must mention the price of the pump."),
            _criterion("b", "The answer must not mention the price of the pump."),
        ),
        _task(
            _criterion("a", "The answer must mention the price of the pump."),
            _criterion("b", "The answer must not mention the price of the valve."),
        ),
    ),
    (
        "contradiction",  # short, with the same verb
        _task(
            _criterion("a", "Mentions the compressor."),
            _criterion("b", "Does not mention the compressor."),
        ),
        _task(
            _criterion("a", "Mentions the compressor."),
            _criterion("b", "Does not explain the compressor."),
        ),
    ),
    (
        "contradiction",
        _task(
            _criterion("a", "The answer mentions prices."),
            _criterion("b", "No mention of prices."),
        ),
        _task(
            _criterion("a", "The answer mentions prices."),
            _criterion("b", "No mention of parts."),
        ),
    ),
    (
        "contradiction",  # a term that is forbidden elsewhere
        _task(VALVE, _criterion("b", "Does not mention the relief valve.")),
        _task(
            VALVE,
            _criterion("b", "Does not mention the price of any relief valve on sale."),
        ),
    ),
    (
        "contradiction",  # the same, as a pattern
        _task(
            VALVE,
            _criterion("b", "Silent.", verification_method="regex: ^(?!.*relief)"),
        ),
        _task(
            VALVE,
            _criterion("b", "Silent.", verification_method="regex: ^(?!.*reliefs)"),
        ),
    ),
    (
        "contradiction",
        _task(
            _criterion("a", "Short.", verification_method="structure: count 3..5"),
            _criterion("b", "Long.", verification_method="structure: count 6..9"),
        ),
        _task(
            _criterion("a", "Short.", verification_method="structure: count 3..5"),
            _criterion("b", "Long.", verification_method="structure: count 5..9"),
        ),
    ),
    (
        "contradiction",
        _task(
            _criterion(
                "a", "Water pressure.", verification_method="numeric: 4.2 ± 0.1 bar"
            ),
            _criterion(
                "b", "Pressure of water.", verification_method="numeric: 6 ± 0.1 bar"
            ),
        ),
        _task(
            _criterion(
                "a", "Water pressure.", verification_method="numeric: 4.2 ± 0.1 bar"
            ),
            _criterion(
                "b", "Valve opening.", verification_method="numeric: 6 ± 0.1 bar"
            ),
        ),
    ),
    (
        "bad_directive",
        _task(
            PUMP, _criterion("a", "Long.", verification_method="structure: counts 3..5")
        ),
        _task(
            PUMP,
            _criterion("a", "Long.", verification_method="count the sentences: 3..5"),
        ),
    ),
    *(
        (
            "free_text",
            _task(PUMP, _criterion("a", "Long.", verification_method=f"{wrong} 4.2")),
            _task(PUMP, _criterion("a", "Long.", verification_method=right)),
        )
        for wrong, right in [
            ("regexp:", "regex: 4.2"),
            ("python_test:", "Reviewer: 4.2"),
            ("python:", "Note: the code is run"),
            ("contains:", "contains_all: 4.2"),
            ("jsonschema:", "Check the JSON by eye: 4.2"),
            ("Numeric:", "numeric: 4.2"),
            ("contains all :", "Constraint: 4.2"),
        ]
    ),
    (
        "unreachable",
        _task(
            PUMP,
            _criterion("a", "One.", verification_method="sentences: first; skip_first"),
        ),
        _task(
            PUMP,
            _criterion("a", "One.", verification_method="sentences: lead; skip_first"),
        ),
    ),
    (
        "unreachable",
        _task(
            _criterion(
                "a",
                "Orderly.",
                verification_method="structure: order(a->b->c); count 1..2",
            )
        ),
        _task(
            _criterion(
                "a",
                "Orderly.",
                verification_method="structure: order(a->b->c); count 1..3",
            )
        ),
    ),
    (
        "unreachable",
        _task(PUMP, VALVE, question="In at most 2 words: how is the loop kept safe?"),
        _task(PUMP, VALVE, question="In at most 3 words: how is the loop kept safe?"),
    ),
    (
        "unreachable",
        _task(
            _criterion(
                "a",
                "One sentence.",
                required_elements=tuple(f"term {n}" for n in range(30)),
                verification_method="sentences: last",
            )
        ),
        _task(
            _criterion(
                "a",
                "Many sentences.",
                required_elements=tuple(f"term {n}" for n in range(30)),
                verification_method="sentences: any",
            )
        ),
    ),
    (
        "long_passage",
        _task(PUMP, passage=PASSAGE + " x" * 25_000),
        _task(PUMP, passage=PASSAGE + " x" * 24_000),
    ),
    (
        "not_in_passage",
        _task(
            _criterion("a", "Names the heat.", required_elements=("heat exchanger",))
        ),
        _task(
            _criterion("a", "Names the valves.", required_elements=("relief valves",))
        ),
    ),
    (
        "not_in_passage",  # no alternative is there, or one of them
        _task(
            _criterion(
                "a", "The valves.", required_elements=("heat exchanger|cooling coil",)
            )
        ),
        _task(
            _criterion(
                "a", "The valves.", required_elements=("heat exchanger|relief valves",)
            )
        ),
    ),
    (
        "not_in_passage",  # there, but behind what a judge reads
        _task(PUMP, passage="x " * 25_000 + PASSAGE),
        _task(PUMP, passage="x " * 20_000 + PASSAGE),
    ),
    (
        "not_in_passage",
        _task(
            _criterion("a", "The pressure.", verification_method="numeric: 5 ± 0.5 bar")
        ),
        _task(
            _criterion("a", "The pressure.", verification_method="numeric: 4 ± 0.5 bar")
        ),
    ),
    (
        "not_in_passage",
        _task(
            _criterion("a", "Heat.", expected_keywords=("heat", "entropy", "filter"))
        ),
        _task(_criterion("a", "Heat.", expected_keywords=("heat", "vessel", "filter"))),
    ),
    (
        "leak",
        _task(
            PUMP, question="Why: a relief valve opens at 6 bar, and the filter cleans?"
        ),
        _task(PUMP, question="Why: a relief valve opens at 6 bar, but nothing cleans?"),
    ),
    (
        "rubric_leak",
        _task(
            _criterion("a", "Say which of the three parts of the loop fails first."),
            question="Say which of the three parts of the loop fails.",
        ),
        _task(
            _criterion("a", "Say which of the three parts in the loop fails first."),
            question="Say which of the three parts of the loop fails.",
        ),
    ),
    (
        "given_away",
        _task(PUMP, VALVE, FILTER, question="Why does the pump run?"),
        _task(PUMP, VALVE, FILTER, question="Why does the `pump` run?"),
    ),
    (
        "echo_pays",
        _task(PUMP, VALVE, question="What do `pump` and `relief valve` do?"),
        _task(PUMP, VALVE, question="What do `pump` and `drain valve` do?"),
    ),
]


@pytest.mark.parametrize(
    ("code", "hit", "miss"),
    HITS_AND_MISSES,
    ids=[f"{code} {number}" for number, (code, _, _) in enumerate(HITS_AND_MISSES)],
)
def test_a_finding_has_a_hit_and_a_near_miss(code: str, hit: Task, miss: Task) -> None:
    assert [finding.code for finding in lint_task(hit)].count(code) == 1
    assert code not in {finding.code for finding in lint_task(miss)}


def test_a_misspelt_directive_is_told_the_right_one() -> None:
    for wrong, meant in (
        ("regexp", "regex"),
        ("python_test", "python_tests"),
        ("contains", "contains_a"),
        ("jsonschema", "json_schema"),
        ("schema", "json_schema"),
        ("Numeric", "numeric"),
    ):
        task = _task(
            PUMP, _criterion("a", "Long.", verification_method=f"{wrong}: 4.2")
        )
        (finding,) = (one for one in lint_task(task) if one.code != "no_words")
        assert f"did you mean `{meant}" in finding.what


def test_many_criteria_are_compared_in_bounded_time_and_that_is_said() -> None:
    criteria = [
        _criterion(f"c{n}", f"Says that part{n} of the pump lasts for {n} years.")
        for n in range(1500)
    ]
    criteria[1200] = _criterion("twin", criteria[7].description.upper())
    criteria[1400] = _criterion(
        "not", "Does not say that part9 of the pump lasts for 9 years."
    )
    started = time.process_time()
    found = {finding.code: finding for finding in lint_task(_task(*criteria))}
    assert time.process_time() - started < 60  # all pairs of them would take far longer
    assert (
        found["duplicate_criterion"].criterion_id,
        found["contradiction"].criterion_id,
    ) == (
        "twin",
        "not",
    )
    assert "1500 criteria" in found["many_criteria"].what
    assert "10000 of their 1124250 pairs" in found["many_criteria"].what


def test_a_sound_task_has_no_finding() -> None:
    assert list(lint_task(_task(PUMP, VALVE, FILTER))) == []


def test_findings_name_their_place_and_show_no_text() -> None:
    for _, hit, _ in HITS_AND_MISSES:
        for finding in lint_task(hit):
            assert finding.task_id == hit.task_id
            assert finding.criterion_id in {"", *hit.rubric.ids}
            assert finding.what
            assert finding.remedy
            shown = f"{finding.what} {finding.remedy}"
            for secret in ("relief", "heat exchanger", "price of", PASSAGE[:40]):
                assert secret not in shown


def test_every_contradicting_pair_is_found_whichever_comes_first() -> None:
    for code, hit, miss in HITS_AND_MISSES:
        if code == "contradiction":
            for task, count in ((hit, 1), (miss, 0)):
                turned = _task(*reversed(tuple(task.rubric)), question=task.question)
                codes = [finding.code for finding in lint_task(turned)]
                assert codes.count("contradiction") == count


# --- files and the command ------------------------------------------------------------------------


class Run(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def lint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Run]]:
    monkeypatch.chdir(tmp_path)

    def run(*more: str) -> Run:
        monkeypatch.setattr("sys.argv", ["rubric-judge", "lint", *more])
        with pytest.raises(SystemExit) as ended:
            main()
        return Run(int(ended.value.code or 0), *capsys.readouterr())

    yield run
    structlog.reset_defaults()


def _row(task: Task) -> str:
    return json.dumps(task.to_json(reveal_grounding=True))


def _findings(path: Path) -> list[Finding]:
    return [finding for _, found in lint_tasks(path) for finding in found]


def test_lines_are_those_of_the_file_and_no_task_is_a_finding(tmp_path: Path) -> None:
    broken = json.loads(_row(_task(PUMP)))
    broken["criteria"][0]["weight"] = 0
    lines = [
        "",
        _row(_task(PUMP)),
        "",
        json.dumps(broken),
        _row(_task(PUMP)),
        '{"question": "?"}',
    ]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))

    findings = _findings(tmp_path / "tasks.jsonl")

    assert [(finding.line, finding.code) for finding in findings] == [
        (4, "no_task"),
        (5, "repeated_task"),
        (6, "no_task"),
    ]
    assert "line 2" in findings[1].what


BROKEN = [
    ("not JSON", "not JSON: Expecting value at column 1"),
    (_row(_task(PUMP))[:90], "not JSON: "),
    ("\0" * 40, "not JSON: "),
    ("[" * 100_000, "nested too deeply"),
    ('{"question": "a", "question": "b"}', "the same key twice"),
    ("[]", "must hold one JSON object, not list"),
    ("\xff", "not UTF-8 at byte 0"),
]


def test_every_line_that_is_no_task_is_named_and_the_others_are_read(
    tmp_path: Path,
) -> None:
    lines = [line for line, _ in BROKEN] + [_row(_task(_criterion("blank")))]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines), "latin-1")

    *found, last = _findings(tmp_path / "tasks.jsonl")

    assert [(one.line, one.code) for one in found] == [
        (n, "no_task") for n in range(1, 8)
    ]
    for one, (_, problem) in zip(found, BROKEN, strict=True):
        assert problem in one.what
    assert (last.line, last.code) == (8, "empty_criterion")


def test_a_parquet_row_that_is_no_task_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tasks.parquet"
    write_tasks(path, [_task(PUMP), _task(VALVE)])
    table = parquet.read_table(path)
    questions = pa.array(["", QUESTION])
    parquet.write_table(
        table.set_column(0, table.schema.field("question"), questions), path
    )
    assert [(one.line, one.code) for one in _findings(path)] == [(1, "no_task")]


def test_a_negative_weight_says_how_penalties_are_written(tmp_path: Path) -> None:
    row = json.loads(_row(_task(PUMP, VALVE)))
    row["criteria"][1]["weight"] = -2
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row))
    (finding,) = _findings(tmp_path / "tasks.jsonl")
    assert "criteria.1.weight" in finding.what
    assert "positive weight that an answer meets by avoiding" in finding.what
    assert "rubric-judge import" in finding.what
    row["question"] = ""
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row))
    (finding,) = _findings(tmp_path / "tasks.jsonl")
    assert "question" in finding.what
    assert "rubric-judge import" not in finding.what


def test_the_command_groups_counts_and_writes(
    tmp_path: Path, lint: Callable[..., Run]
) -> None:
    bad = _task(
        PUMP,
        _criterion("free", "Is polite.", weight=0.0, expected_keywords=("please",)),
    )
    write_tasks(tmp_path / "tasks.jsonl", [_task(PUMP, VALVE, FILTER), bad])

    done = lint("tasks.jsonl", "--json", "found.json")

    assert (done.returncode, done.stderr) == (1, "")
    assert "tasks.jsonl:2: zero_weight: 'free' the weight is 0" in done.stdout
    assert "2 tasks, 1 error, 0 warnings" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["tasks"], found["counts"]) == (2, {"zero_weight": 1})
    (finding,) = found["findings"]
    assert (finding["line"], finding["task_id"]) == (2, bad.task_id)


def test_warnings_end_with_status_0_and_examples_can_be_left_out(
    tmp_path: Path, lint: Callable[..., Run]
) -> None:
    task = _task(PUMP, _criterion("terms", required_elements=("vessel",)))
    write_tasks(tmp_path / "tasks.parquet", [task])
    shown = lint("tasks.parquet")
    counted = lint("tasks.parquet", "--examples", "0")
    assert shown.returncode == counted.returncode == 0
    assert "tasks.parquet:1: no_description: 'terms'" in shown.stdout
    assert "tasks.parquet:1" not in counted.stdout
    assert "no_description" in counted.stdout


@pytest.mark.parametrize(
    ("content", "more", "problem"),
    [
        ("", (), "holds no task"),
        (None, (), "this is a folder: tasks are kept in .jsonl or .parquet files"),
        (
            "{}",
            ("--examples", "-1"),
            'Invalid value "-1" for --examples. Must be >= 0.',
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_line(
    tmp_path: Path,
    lint: Callable[..., Run],
    content: str | None,
    more: tuple[str, ...],
    problem: str,
) -> None:
    (tmp_path / "tasks.jsonl").write_text(content or "")
    done = lint("." if content is None else "tasks.jsonl", *more)
    assert done.returncode == 2
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_criterion_without_a_claim_is_found_where_the_judge_of_claims_scores_it() -> (
    None
):
    task = _task(
        Criterion(
            id="claim", weight=1, description="Says that the pump stops at 90 degrees."
        ),
        Criterion(id="open", weight=1, description="Explains why the pump stops."),
        Criterion(
            id="checked",
            weight=1,
            description="Is short.",
            verification_method="regex: pump",
        ),
    )
    by_claims = [(f.code, f.criterion_id) for f in lint_task(task, by_claims=True)]
    assert ("no_claim", "open") in by_claims
    assert {one for code, one in by_claims if code == "no_claim"} == {"open"}
    assert "no_claim" not in {finding.code for finding in lint_task(task)}


def test_an_empty_claim_is_found_whoever_judges() -> None:
    task = _task(
        Criterion(id="empty", weight=1, description="Says that it is so."),
        Criterion(
            id="full", weight=1, description="Says that the pump stops at 90 degrees."
        ),
    )
    found = [
        (f.code, f.criterion_id) for f in lint_task(task) if f.code == "empty_claim"
    ]
    assert found == [("empty_claim", "empty")]


@pytest.mark.parametrize(
    ("settings", "reads"),
    [
        ({"type": "claims"}, True),
        ({"type": "hybrid", "judge": {"type": "claims"}}, True),
        ({"type": "lexical"}, False),
        ({"type": "llm", "model": "m"}, False),
    ],
)
def test_the_configuration_says_whether_claims_are_read(
    settings: dict[str, object], *, reads: bool
) -> None:
    assert reads_claims(judge_spec(settings)) == reads


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("fingerprint", ["", "    fingerprint = 'acme 1'\n"])
def test_a_judge_of_another_package_says_whether_it_reads_claims(
    install_plugin: Callable[..., None], fingerprint: str, *, reads: bool
) -> None:
    code = f"class Judge:\n    name = 'acme'\n    reads_claims = {reads}\n{fingerprint}"
    code += (
        "    def __init__(self, options): pass\n    async def judge(self, view): ...\n"
    )
    install_plugin("acme", code, {"rubric.judges": {"acme": "acme:Judge"}})
    for settings in (
        {"type": "plugin", "name": "acme"},
        {"type": "hybrid", "judge": {"type": "plugin", "name": "acme"}},
    ):
        assert reads_claims(judge_spec(settings)) == reads


def test_the_command_takes_the_judge_that_will_score(
    tmp_path: Path, lint: Callable[..., Run]
) -> None:
    task = _task(
        Criterion(id="open", weight=1, description="Explains why the pump stops.")
    )
    (tmp_path / "tasks.jsonl").write_text(_row(task) + "\n")
    (tmp_path / "judge.yaml").write_text("type: claims\n")
    without, named = lint("tasks.jsonl"), lint("tasks.jsonl", "--judge", "judge.yaml")
    assert (without.returncode, named.returncode) == (0, 0)
    assert "no_claim" not in without.stdout
    assert "no_claim: 'open' states no claim" in named.stdout


def test_a_task_without_a_passage_is_one_line_and_no_finding_for_each_criterion(
    tmp_path: Path, lint: Callable[..., Run]
) -> None:
    words = ("valve", "filter", "vessel")
    task = Task(
        question="Why does the pump stop?",
        grounding=Grounding(NO_PASSAGE),
        rubric=Rubric(
            criteria=tuple(
                Criterion(id=word, weight=1, description=f"Says that the {word} is shut.",
                          required_elements=(word,))
                for word in words
            )
        ),
    )  # fmt: skip
    (tmp_path / "tasks.jsonl").write_text(_row(task) + "\n")
    done = lint("tasks.jsonl")

    assert "not_in_passage" not in done.stdout
    assert done.stdout.count("1 task without a passage or reference answer") == 1
    assert _findings(tmp_path / "tasks.jsonl") == []


def test_a_language_model_needs_no_words_to_look_for(
    tmp_path: Path, lint: Callable[..., Run]
) -> None:
    task = _task(
        Criterion(id="open", weight=1, description="Explains why the pump stops.")
    )
    (tmp_path / "tasks.jsonl").write_text(_row(task) + "\n")
    model = "model: hosted_vllm/m\napi_base: http://127.0.0.1:9/v1\n"
    (tmp_path / "llm.yaml").write_text(f"type: llm\n{model}")
    (tmp_path / "lexical.yaml").write_text("type: lexical\n")

    assert "no_words" in lint("tasks.jsonl").stdout
    assert "no_words" in lint("tasks.jsonl", "--judge", "lexical.yaml").stdout
    assert "no_words" not in lint("tasks.jsonl", "--judge", "llm.yaml").stdout
