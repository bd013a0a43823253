"""Labels out of tables and of other tools' exports, and what `reliability` makes of them."""

import copy
import csv
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rubric_core.errors import RubricFileError
from rubric_judge.quality.labels.exports import READERS
from rubric_judge.quality.labels.foreign import import_scores
from rubric_judge.quality.labels.rows import Label, LabelSource, read_labels

Command = Callable[..., tuple[int, str, str]]
Imported = Callable[..., list[Label]]


@pytest.fixture
def imported(tmp_path: Path, source: LabelSource) -> Imported:
    """Return a function that writes an export and reads its labels."""

    def read(kind: str, content: object, *, rater: str | None = None) -> list[Label]:
        path = tmp_path / "export"
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, "utf-8")
        return list(import_scores(READERS[kind](path), source, rater=rater))

    return read


def _told(labels: list[Label]) -> list[tuple[str, int, str, float | None]]:
    return [(one.rater, one.line, one.criterion, one.score) for one in labels]


# --- CSV ------------------------------------------------------------------------------------------


def test_a_table_is_read_by_line_or_by_task_and_text(
    imported: Imported, source: LabelSource
) -> None:
    by_line = (
        "\ufeffline, "
        "criterion,score,rater\r\n1,fact,2.5,Anna\r\n2,extra,,Ben\r\n2,tone,yes,Ben\r\n"
    )
    view = (source.views or {})[7]
    by_text = (
        f'task_id,response,criterion,score\n{view.task_id},"{view.response}",limit,no\n'
    )

    labels = imported("csv", by_line)
    assert _told(labels) == [
        ("Anna", 1, "fact", 2.5),
        ("Ben", 2, "extra", None),
        ("Ben", 2, "tone", 0.5),
    ]
    assert all(one.response_sha256 and one.rubric_sha256 for one in labels)
    assert _told(imported("csv", by_text, rater="Zoe")) == [("Zoe", 7, "limit", 0.0)]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("line,score\n1,1\n", r"export:1: has no column criterion"),
        (
            "criterion,score\nfact,1\n",
            r"has no column line or task_id, but criterion, score: the",
        ),
        (
            "Task ID,criterion,Score\nx,fact,1\n",
            r"score, line or task_id, but …, criterion, Score: .*; rename 'Score' to score, 'Task",
        ),
        (
            "line;criterion;score\n1;fact;1\n",
            r"export:1: .* one cell with `;` in it: separate by",
        ),
        (
            "line\tcriterion\tscore\n1\tfact\t1\n",
            r"one cell with a tab in it: separate by comm",
        ),
        (
            'line,criterion,score\n1,fact,"1,5"\n',
            r"of 'fact' has a decimal comma: write 1\.5",
        ),
        (
            "line,criterion,score\n1,fact\n",
            r"export:2: has not the 3 cells of the header",
        ),
        (
            "line,criterion,score\n1,fact,1,2\n",
            r"export:2: has not the 3 cells of the header",
        ),
        (
            "line,criterion,score\n1,fact,1\n\n99,fact,1\n",
            r"export:4: there is no response in line 99",
        ),
        ("line,criterion,score\nx,fact,1\n", r"export:2: line 'x' is no line number"),
        (
            "line,criterion,score\n1,facts,1\n",
            r"export:2: its task has no criterion 'facts', but fact",
        ),
        (
            "line,criterion,score\n1,fact,4\n",
            r"export:2: .*no number from 0 to its weight 3",
        ),
        (
            "line,criterion,score\n1,fact,nan\n",
            r"export:2: .*no number from 0 to its weight 3",
        ),
        (
            "line,criterion,score\n1,fact,good\n",
            r"export:2: .*no number from 0 to its weight 3",
        ),
        (
            "line,criterion,score\n1,fact,1\n1,fact,1\n",
            r"export:3: .*'R' has scored in line 2",
        ),
        (
            "task_id,criterion,score\nnone,fact,1\n",
            r"export:2: task 'none' has no response: give",
        ),
        ("1,Secret,3\n", r"export:1: has no column [^S]*, but 3 others: [^S]*$"),
        (
            "line,criterion,score\n,fact,1\n",
            r"export:2: has neither line nor task_id: name",
        ),
        (
            "line,task_id,criterion,score\n1,none,fact,1\n",
            r"export:2: response 1 is of task",
        ),
        ('line,criterion,score\n1,"fact,1\n', r"export:2: is no CSV"),
        (
            'line,"criterion,score\n1,fact,1\n',
            r"export:2: is no CSV: .*close every quote",
        ),
        (
            '"line"x,criterion,score\n1,fact,1\n',
            r"export:1: is no CSV: .*close every quote",
        ),
        (
            "",
            r"export:1: has no column criterion, score, line or task_id, but 0 others",
        ),
        (
            "line,criterion,score,score\n1,fact,1,2\n",
            r"export:1: has two columns score",
        ),
        (
            "line,criterion,score\n1,fact,0_2\n",
            r"export:2: the score of 'fact' is no number",
        ),
        (
            "line,criterion,score\n1_0,fact,1\n",
            r"export:2: line '1_0' is no line number",
        ),
        (
            "line,criterion,score\n1,fact,-1\n",
            r"export:2: the score -1.0 of 'fact' is no number",
        ),
        (
            "line,criterion,score\n1,fact,3.0000001\n",
            r"export:2: the score 3.0000001 of 'fact' is no number from 0 to its weight 3.0",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused_with_its_line(
    imported: Imported, table: str, told: str
) -> None:
    with pytest.raises(RubricFileError, match=told):
        imported("csv", table, rater="R")


def test_scores_of_nobody_and_of_a_task_with_several_responses_are_refused(
    imported: Imported, source: LabelSource
) -> None:
    task_id = (source.views or {})[1].task_id
    with pytest.raises(
        RubricFileError, match=r"export:2: names no rater: name one with --rater"
    ):
        imported("csv", "line,criterion,score\n1,fact,1\n")
    with pytest.raises(RubricFileError, match=r"export:2: .*must not hold U\+200B"):
        imported("csv", "line,criterion,score,rater\n1,fact,1,An\u200bna\n")
    with pytest.raises(
        RubricFileError, match=r"has 4 responses: add a column line or response"
    ):
        imported("csv", f"task_id,criterion,score\n{task_id},fact,1\n", rater="R")


def test_a_cell_may_be_long(imported: Imported) -> None:
    before = csv.field_size_limit()
    table = f"line,criterion,score,comment\n1,fact,1,{'x' * 200_000}\n"

    assert _told(imported("csv", table, rater="R")) == [("R", 1, "fact", 1.0)]
    assert csv.field_size_limit() == before


def test_a_name_that_no_file_can_hold_is_refused(imported: Imported) -> None:
    with pytest.raises(RubricFileError, match=r"export:2: field 'rater': .*in UTF-8"):
        imported("csv", "line,criterion,score\n1,fact,1\n", rater="\udcff")


# --- Label Studio ---------------------------------------------------------------------------------


def _control(name: str, kind: str, value: object, **more: Any) -> dict[str, Any]:
    held = {"textarea": "text"}.get(kind, kind)
    return {
        "id": "x1",
        "from_name": name,
        "to_name": "answer",
        "type": kind,
        "origin": "manual",
        "value": {held: value},
        **more,
    }


def _studio_task(data: dict[str, Any], *annotations: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": 7,
        "data": data,
        "annotations": [
            {
                "id": 1,
                "was_cancelled": False,
                "ground_truth": False,
                "lead_time": 4.9,
                **one,
            }
            for one in annotations
        ],
        "predictions": [{"result": [_control("fact", "rating", 1)]}],
        "drafts": [],
        "created_at": "2025-11-05T08:23:07.103031Z",
        "project": 1,
    }


def test_label_studios_json_is_read_with_its_raters(imported: Imported) -> None:
    export = [
        _studio_task(
            {"line": 1},
            {
                "completed_by": {
                    "id": 3,
                    "email": "anna@example.org",
                    "first_name": "",
                },
                "result": [
                    _control("fact", "rating", 2),
                    _control("limit", "choices", ["met"]),
                ],
            },
            {"completed_by": 4, "result": [_control("fact", "number", 1.5)]},
            {
                "completed_by": 5,
                "was_cancelled": True,
                "result": [_control("fact", "rating", 3)],
            },
        ),
        _studio_task(
            {"line": "2", "criterion": "tone"},
            {"completed_by": 4, "result": [_control("score", "textarea", ["0.25"])]},
        ),
    ]

    assert _told(imported("label_studio", export)) == [
        ("anna@example.org", 1, "fact", 2.0),
        ("anna@example.org", 1, "limit", 1.0),
        ("4", 1, "fact", 1.5),
        ("4", 2, "tone", 0.25),
    ]


@pytest.mark.parametrize(
    ("export", "told"),
    [
        (
            [{"id": 1, "text": "…", "fact": 2, "annotator": 1}],
            r"export: record 1: field 'data'.*not as JSON-MIN",
        ),
        ({"tasks": []}, "holds no list of records"),
        (
            "not json",
            r"export: not JSON: Expecting value at column 1: give the tool's export",
        ),
        (
            [
                _studio_task(
                    {"line": 1},
                    {"completed_by": 1, "result": [_control("fact", "labels", [])]},
                )
            ],
            r"record 1: field 'annotations.0.result.0.type'.* 'rating'",
        ),
        (
            [
                _studio_task({"line": 1}),
                _studio_task(
                    {"line": 1},
                    {
                        "completed_by": 1,
                        "result": [_control("fact", "choices", ["1", "2"])],
                    },
                ),
            ],
            r"export: record 2: field .*choices': holds 2 answers to one question",
        ),
        (
            [
                _studio_task(
                    {"line": 1},
                    {"completed_by": 1, "result": [_control("fact", "rating", 1)]},
                    {"completed_by": 1, "result": [_control("fact", "rating", 2)]},
                )
            ],
            r"export: record 1: scores what '1' has scored in record 1",
        ),
    ],
)
def test_another_export_of_label_studio_is_refused(
    imported: Imported, export: object, told: str
) -> None:
    with pytest.raises(RubricFileError, match=told):
        imported("label_studio", export)


_RATED: dict[str, Any] = {"completed_by": 1, "result": [_control("fact", "rating", 1)]}


def _holding(value: object) -> dict[str, Any]:
    return {**_RATED, "result": [{**_control("fact", "rating", 1), "value": value}]}


@pytest.mark.parametrize(
    ("data", "annotation", "field"),
    [
        ({"line": 1}, None, "annotations.0"),
        ({"line": 1}, 3, "annotations.0"),
        ({"line": 1}, "text", "annotations.0"),
        ({"line": 1}, {**_RATED, "result": {}}, "annotations.0.result"),
        ({"line": 1}, {**_RATED, "result": "text"}, "annotations.0.result"),
        ({"line": 1}, {**_RATED, "result": [1]}, "annotations.0.result.0"),
        (
            {"line": 1},
            _holding([1]),
            "annotations.0.result.0.value",
        ),
        (
            {"line": 1},
            _holding("text"),
            "annotations.0.result.0.value",
        ),
        (
            {"line": 1},
            _holding({}),
            "annotations.0.result.0",
        ),
        (
            {"line": 1},
            {**_RATED, "result": [_control("fact", "number", value=True)]},
            "annotations.0.result.0.value.number",
        ),
        ({"task_id": ["a"]}, _RATED, "data.task_id"),
        ({"task_id": {"a": 1}}, _RATED, "data.task_id"),
        (
            {"line": 1},
            {**_RATED, "completed_by": "\ud800"},
            "annotations.0.completed_by",
        ),
        (
            {"line": 1},
            {**_RATED, "completed_by": {"email": [1]}},
            "annotations.0.completed_by",
        ),
    ],
)
def test_an_odd_task_of_label_studio_is_refused_with_its_field(
    imported: Imported, data: object, annotation: object, field: str
) -> None:
    task = {"data": data, "annotations": [annotation]}
    told = f"export: record 2: field '{field}': .*; export as JSON"
    with pytest.raises(RubricFileError, match=told) as caught:
        imported("label_studio", [{"data": {}, "annotations": []}, task])
    assert caught.value.field == field


# --- Argilla --------------------------------------------------------------------------------------

USERS = ("6f1e1ee9-1a4c-4c0b-9df3-1f2a3b4c5d6e", "0aa1b2c3-0000-4000-8000-1234567890ab")


def test_argillas_records_are_read_nested_and_flat(imported: Imported) -> None:
    nested = {
        "id": "r1",
        "fields": {"response": "shown otherwise"},
        "metadata": {"line": 1},
        "suggestions": {"fact": {"value": 3, "score": None, "agent": "model"}},
        "responses": {
            "fact": [
                {"value": 2, "user_id": USERS[0]},
                {"value": 1, "user_id": USERS[1]},
            ],
            "limit": [{"value": "unmet", "user_id": USERS[0]}],
        },
        "vectors": {},
        "_server_id": "s1",
    }
    flat = {
        "id": "r1",
        "_server_id": "s1",
        "line": 1,
        "fact.responses": [2, 1, 3],
        "fact.responses.users": [*USERS, "drafting"],
        "fact.responses.status": ["submitted", "submitted", "draft"],
        "limit.responses": ["unmet"],
        "limit.responses.users": [USERS[0]],
        "limit.responses.status": ["submitted"],
        "tone.responses": None,
        "fact.suggestion": 3,
    }
    expected = [
        (USERS[0], 1, "fact", 2.0),
        (USERS[1], 1, "fact", 1.0),
        (USERS[0], 1, "limit", 0.0),
    ]

    assert _told(imported("argilla", [nested])) == expected
    assert _told(imported("argilla", [flat])) == expected
    assert imported("argilla", [{**nested, "responses": {}}]) == []


def test_what_is_no_export_of_argilla_is_refused(imported: Imported) -> None:
    with pytest.raises(
        RubricFileError, match=r"export: record 1: has no responses: .*to_json"
    ):
        imported("argilla", [{"text": "…", "label": 1}])


def _answered(*answers: object) -> dict[str, Any]:
    return {"metadata": {"line": 1}, "responses": {"fact": list(answers)}}


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({**_answered(), "fields": "text"}, "fields"),
        ({**_answered(), "fields": [1]}, "fields"),
        ({**_answered(), "responses": [1]}, "responses"),
        ({**_answered(), "responses": {"fact": None}}, "responses.fact"),
        ({**_answered(), "responses": {"fact": {}}}, "responses.fact"),
        (_answered(1), "responses.fact.0"),
        (_answered({"user_id": "u"}), "responses.fact.0.value"),
        (_answered({"value": True, "user_id": "u"}), "responses.fact.0.value"),
        (_answered({"value": {"a": 1}, "user_id": "u"}), "responses.fact.0.value"),
        (_answered({"value": 1, "user_id": "\ud800"}), "responses.fact.0.user_id"),
        (_answered({"value": 1, "user_id": 2**53}), "responses.fact.0.user_id"),
        ({"line": 1, "cost.responses": 3}, "cost.responses"),
        (
            {"line": 1, "fact.responses": [2, 1], "fact.responses.users": ["u"]},
            "fact.responses",
        ),
        (
            {"line": 1, "fact.responses": [2], "fact.responses.status": "x"},
            "fact.responses",
        ),
    ],
)
def test_an_odd_record_of_argilla_is_refused_with_its_field(
    imported: Imported, record: object, field: str
) -> None:
    told = f"export: record 2: .*{field}.*to_json"
    with pytest.raises(RubricFileError, match=told) as caught:
        imported("argilla", [_answered(), record], rater="R")
    assert caught.value.field == field


def test_a_user_that_is_a_number_keeps_it(imported: Imported) -> None:
    answers = [{"value": 1, "user_id": user} for user in (7, 1234567)]
    assert [one.rater for one in imported("argilla", [_answered(*answers)])] == [
        "7",
        "1234567",
    ]


def test_a_chat_in_the_place_of_the_response_is_equal_to_none(
    imported: Imported, source: LabelSource
) -> None:
    record = {
        **_answered({"value": 1, "user_id": 7}),
        "fields": {"response": [{"role": "user"}]},
    }
    task_id = (source.views or {})[1].task_id

    assert _told(imported("argilla", [record])) == [("7", 1, "fact", 1.0)]
    with pytest.raises(
        RubricFileError, match=r"has no response of this text: add a field line"
    ):
        imported("argilla", [{**record, "metadata": {"task_id": task_id}}])


# --- any export ---------------------------------------------------------------------------------

_LEAVES = (
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text()
    | st.just("\ud800")
)
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
)
_EXPORTS: dict[str, dict[str, Any]] = {
    "label_studio": {"data": {"line": 1, "task_id": None}, "annotations": [_RATED]},
    "argilla": {
        **_answered({"value": 1, "user_id": "u", "status": None}),
        "fields": {},
    },
}
_FLAT = {"line": 1, "fact.responses": [1], "fact.responses.users": ["u"]}


def _paths(value: object) -> list[tuple[Any, ...]]:
    match value:
        case dict():
            items = list(cast("dict[object, object]", value).items())
        case list():
            items = list(enumerate(cast("list[object]", value)))
        case _:
            items = []
    return [(), *((key, *rest) for key, inner in items for rest in _paths(inner))]


@pytest.mark.parametrize(
    ("kind", "record"),
    [*_EXPORTS.items(), ("argilla", _FLAT)],
    ids=["studio", "nested", "flat"],
)
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_any_value_anywhere_is_read_or_refused(
    imported: Imported, kind: str, record: dict[str, Any], data: st.DataObject
) -> None:
    changed = copy.deepcopy([record])
    *way, last = data.draw(st.sampled_from(_paths(changed)[1:]))
    inner: Any = changed
    for key in way:
        inner = inner[key]
    inner[last] = data.draw(_JSON)

    with suppress(RubricFileError):
        for label in imported(kind, changed, rater="R"):
            assert Label.model_validate_json(label.line_of_file()) == label


def test_a_response_nested_deeply_is_no_response(imported: Imported) -> None:
    record = json.dumps(_answered({"value": 1, "user_id": 7}))[:-1]
    text = f'[{record}, "fields": {{"response": {"[" * 600}{"]" * 600}}}}}]'
    assert _told(imported("argilla", text)) == [("7", 1, "fact", 1.0)]


@pytest.mark.parametrize("score", [True, "1"])
def test_a_label_whose_score_is_no_number_is_refused(
    tmp_path: Path, source: LabelSource, score: object
) -> None:
    task_id = (source.views or {})[1].task_id
    row = {
        "line": 1,
        "task_id": task_id,
        "criterion": "fact",
        "score": score,
        "rater": "R",
    }
    (tmp_path / "labels.jsonl").write_text(json.dumps(row))
    with pytest.raises(RubricFileError, match=r"labels\.jsonl:1: field 'score'"):
        list(read_labels(tmp_path / "labels.jsonl", source))


# --- commands -------------------------------------------------------------------------------------


def test_the_command_writes_labels_that_reliability_reads(
    command: Command,
    write_source: Callable[[Path, LabelSource], None],
    make_source: Callable[..., LabelSource],
    tmp_path: Path,
) -> None:
    source = make_source(tasks=9, responses=3)
    write_source(tmp_path, source)
    rows = [
        f"{line},{name},{weight * (line % 3) / 2},{rater}"
        for rater in ("Anna", "Ben")
        for line in source.views or {}
        for name, weight in (("fact", 3), ("limit", 1), ("tone", 0.5), ("extra", 10))
        if not (rater == "Ben" and line == 5 and name == "tone")
    ]
    (tmp_path / "scores.csv").write_text(
        "\n".join(["line,criterion,score,rater", *rows])
    )
    words = (
        "label-import",
        "csv",
        "scores.csv",
        "tasks.jsonl",
        "answers.jsonl",
        "--out",
    )
    status, printed, _ = command(*words, "labels.jsonl")

    assert status == 0
    assert "108" in printed
    assert "107" in printed
    assert len(list(read_labels(tmp_path / "labels.jsonl", source))) == 215
    status, _, complaint = command(*words, "labels.jsonl")
    assert (status, "name a new file with --out" in complaint) == (2, True)
    quick = ("--resamples", "30", "--out", "agreement")
    status, _, said = command(
        "reliability", "tasks.jsonl", "--judgements", "labels.jsonl", *quick
    )
    assert status == 0
    assert (
        "labels.jsonl: 1 responses that 'Ben' has labelled in part are left out" in said
    )
    report = json.loads((tmp_path / "agreement/reliability.json").read_text())
    assert [(one["judge"], one["judgements"]) for one in report["judges"]] == [
        ("Anna", 27),
        ("Ben", 26),
    ]
    assert report["pairs"][0]["bias"]["value"] == 0.0


def test_a_score_that_could_not_be_told_leaves_its_response_out(
    command: Command,
    write_source: Callable[[Path, LabelSource], None],
    source: LabelSource,
    tmp_path: Path,
) -> None:
    write_source(tmp_path, source)
    names = ("fact", "limit", "tone", "extra")
    rows = [
        f"{line},{name},{'' if line == 3 else 0}"
        for line in (1, 2, 3)
        for name in names
    ]
    (tmp_path / "scores.csv").write_text("\n".join(["line,criterion,score", *rows]))
    words = ("csv", "scores.csv", "tasks.jsonl", "answers.jsonl", "--rater", "Zoe")
    command("label-import", *words, "--out", "labels.jsonl")
    quick = ("--resamples", "30", "--out", "alone")
    _, _, said = command(
        "reliability", "tasks.jsonl", "--judgements", "labels.jsonl", *quick
    )

    assert "1 responses that 'Zoe' has labelled in part are left out" in said


def test_an_export_without_a_label_is_bad_input(
    command: Command,
    write_source: Callable[[Path, LabelSource], None],
    source: LabelSource,
    tmp_path: Path,
) -> None:
    write_source(tmp_path, source)
    (tmp_path / "scores.csv").write_text("line,criterion,score\n")
    words = (
        "csv",
        "scores.csv",
        "tasks.jsonl",
        "answers.jsonl",
        "--out",
        "labels.jsonl",
    )

    told = "rubric-judge: scores.csv: holds no label: label some responses first\n"
    assert command("label-import", *words) == (2, "", told)
    assert not (tmp_path / "labels.jsonl").exists()
