"""Every value of a foreign row is read, left out on purpose, or refused."""

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import RubricFileError, Thought
from rubric_core.formats import (
    Imported,
    ImportOptions,
    import_formats,
    import_tasks,
    is_penalty,
)

Write = Callable[..., Path]


def _one(name: str, path: Path, options: ImportOptions | None = None) -> Imported:
    (found,) = import_tasks(name, path, options=options)
    return found


def _levels(name: str) -> dict[str, str]:
    return {name.format(n): f"level {n}" for n in range(1, 6)}


def _prompt(
    answer: str, reference: str = "###Reference Answer (Score 5):\nHello!\n\n"
) -> str:
    levels = "\n".join(f"Score {n}: level {n}" for n in range(1, 6))
    return (
        "###Task Description:\nJudge.\n\n###The instruction to evaluate:\nSay hello.\n\n"
        f"###Response to evaluate:\n{answer}\n\n{reference}"
        f"###Score Rubrics:\n[Is it kind?]\n{levels}\n\n###Feedback: "
    )


def _band(low: int) -> str:
    return f"{low}-{low + 1}"


SCHOLAR = {
    "name": "rubric_corpusqa_generic",
    "config": {
        "question": "What is it?",
        "low_length": 300,
        "length_weight": 0.05,
        "citations_weight": 0.2,
        "other_properties": [
            {
                "name": "i0",
                "criterion": "Define it.",
                "weight": 0.6,
                "evidence": ["It is X."],
            }
        ],
    },
}
RUBRIC = {"criterion": "Says so", "points": 3, "tags": ["level:example"]}
NOTES = {
    "weight_class": "important",
    "important_weight": 4,
    "criteria_description": "cites the statute",
    "criteria_category": "Legal Accuracy",
}
LEAF = {"id": "a", "requirements": "do a", "weight": 2, "sub_tasks": []}
ROWS: dict[str, dict[str, Any]] = {
    "biggen": {
        "id": "b1",
        "capability": "planning",
        "instance_idx": 0,
        "system_prompt": "Be kind.",
        "input": "Say hello.",
        "reference_answer": "Hello!",
        "score_rubric": {"criteria": "Is it kind?", **_levels("score{}_description")},
        "response": "No.",
        "score": 1,
    },
    "checklist": {
        "id": 0,
        "system_prompt": "Be brief.",
        "instruction": "Sum it up.",
        "input": "A long text.",
        "context": "What it is about.",
        "passage": "The source.",
        "criteria": [{"id": 7, "name": "n", "requirement": "r", "max_points": 3}],
    },
    "deep_research_bench": {
        "id": 51,
        "prompt": "q",
        "dimension_weight": {"depth": 1.0},
        "criterions": {
            "depth": [{"criterion": "c", "explanation": "e", "weight": 1.0}]
        },
    },
    "dr_tulu": {
        "ground_truth": json.dumps(
            {"query": "q?", "rubrics": [{"description": "d", "weight": 2}]}
        ),
        "messages": [{"role": "user", "content": "q?"}],
    },
    "feedback_collection": {
        "instruction": "the whole prompt",
        "orig_instruction": "Say hello.",
        "orig_criteria": "Is it kind?",
        **_levels("orig_score{}_description"),
        "orig_response": "No.",
    },
    "gdpval": {
        "task_id": "8d0a",
        "sector": "Retail",
        "prompt": "Make a schedule.",
        "reference_files": [],
        "deliverable_files": ["deliverable_files/a.xlsx"],
        "rubric_pretty": "[+2] Has a header",
        "rubric_json": json.dumps(
            [
                {
                    "rubric_item_id": "i-1",
                    "score": 2,
                    "criterion": "Has a header",
                    "required": None,
                },
                {
                    "rubric_item_id": "i-2",
                    "score": -1,
                    "criterion": "Leaves cells blank",
                },
            ]
        ),
    },
    "healthbench": {
        "prompt_id": "p-1",
        "prompt": [{"role": "user", "content": "Is it normal?"}],
        "data_source": "healthbench",
        "rubrics": [RUBRIC],
        "ideal_completions_data": {"ideal_completion": "Yes."},
    },
    "inverse_if": {"prompt": "q", "rubric": [{"id": "C1", "criteria": "a"}]},
    "multichallenge": {
        "uuid": "u",
        "responses_create_params": {"input": "q"},
        "rubric": [{"question": "Did it apologise?", "pass_criteria": "NO"}],
    },
    "openrubrics": {
        "instruction": "q",
        "rubric": "1. Is short\n2. Explains why",
        "winner": "a",
    },
    "paperbench": {
        "id": "root",
        "requirements": "reproduce",
        "weight": 1,
        "sub_tasks": [
            {"id": "n", "requirements": "part", "weight": 3, "sub_tasks": [LEAF]},
            LEAF | {"id": "b", "task_category": "Code Development"},
        ],
    },
    "prbench": {
        "task": "t1",
        "turns": 2,
        "prompt_0": "First?",
        "reference_texts_0": ["The statute says 5."],
        "response_0": "Yes.",
        "prompt_1": "And then?",
        "rubric": [{"id": "r1", "title": "Cites", "annotations": NOTES}],
    },
    "profbench": {
        "task_id": "Finance-0",
        "domain": "Finance MBA",
        "prompt": "q",
        "rubrics": [
            {
                "criterion_description": "x",
                "criterion_weight": "Major",
                "criterion_type": ["Reasoning", "Extraction (recall)"],
                "o3_fulfilment": True,
                "grok4_fulfilment": False,
            }
        ],
        "o3_response": "an answer",
        "r1-0528_response": "another",
    },
    "prometheus": {"idx": 0, "instruction": _prompt("No."), "gpt4_score": [1, 2]},
    "rar": {
        "question": "Why?",
        "reference_answer": "So.",
        "rubric": [{"title": "t", "description": "Essential Criteria: d", "weight": 5}],
        "rubric_count": 1,
        "question_source": "a set",
    },
    "researchrubrics": {
        "prompt": "q",
        "sample_id": "s",
        "domain": "d",
        "conceptual_breadth": "Simple",
        "logical_nesting": "Intermediate",
        "exploration": "Low",
        "rubrics": [
            {"criterion": "c", "weight": 5.0, "axis": "Explicit Criteria"},
            {"criterion": "f", "weight": -4.0, "axis": "Implicit Criteria"},
        ],
    },
    "rubrichub": {
        "prompt": [{"role": "user", "content": "q"}],
        "reward_model": {"style": "rubric", "ground_truth": "g", "rubrics": [RUBRIC]},
        "extra_info": {"index": 3},
    },
    "scholarqabench": {
        "case_id": "1",
        "initial_prompt": "What is it?",
        "metric_config": SCHOLAR,
    },
    "tinker": {
        "convo": [{"role": "user", "content": "q"}],
        "rubric_items": [{"rubric_str": "r", "extraction_regex": "x"}],
    },
    "wildbench": {
        "id": 7,
        "session_id": "s",
        "length": 12,
        "primary_tag": "Planning",
        "secondary_tags": ["Reasoning"],
        "intent": "To plan.",
        "appropriate": "yes",
        "conversation_input": [
            {
                "role": "user",
                "content": "q",
                "redacted": False,
                "toxic": False,
                "language": "English",
                "timestamp": 1,
                "turn_identifier": 2,
                "country": "France",
                "state": "",
                "hashed_ip": "0a",
            }
        ],
        "checklist": ["Is it right?"],
        "references": {"gpt-4": "An answer.", "other": "Another."},
    },
    "writingbench": {
        "index": 0,
        "domain1": "d",
        "query": "q",
        "checklist": [
            {"name": "n", "criteria_description": "c"}
            | {_band(low): "b" for low in (1, 3, 5, 7, 9)}
        ],
    },
}
"""A row of each schema, as its source has it."""
FILES: dict[str, Any] = {
    "criteria": {
        "name": "n",
        "prompt": "q",
        "rubric": {
            "guidelines": "Be fair.",
            "sections": [
                {
                    "name": "s",
                    "criteria": [{"name": "a", "weight": 10, "requirement": "r"}],
                }
            ],
        },
        "items": [
            {"submission": "an answer", "description": "good", "ground_truth": ["MET"]}
        ],
    },
    "hellobench": {"chat": ["Is it long?", "Is it right?"]},
    "rewardkit": {
        "judge": {"judge": "a-model", "files": ["/app/main.py"]},
        "criterion": [{"description": "Is it right?", "type": "binary", "weight": 2.0}],
    },
    "rubric_spec": {
        "version": "auraone-rubric-v1",
        "rubric_id": "r",
        "provenance": {"synthetic": True},
        "judge_prompt_contract": {"instruction": "Score.", "output_format": "json"},
        "criteria": [
            {
                "criterion_id": "a",
                "label": "Accuracy",
                "description": "Is it right?",
                "scale_type": "ordinal",
                "weight": 0.4,
                "anchors": [
                    {"value": 1, "label": "wrong"},
                    {"value": 3, "label": "right"},
                ],
                "examples": ["5 is right"],
            }
        ],
    },
}
"""A file of each format that holds rubrics, not rows."""


def _values(value: object) -> int:
    if isinstance(value, Mapping):
        return sum(map(_values, value.values()))
    if isinstance(value, list):
        return sum(map(_values, value))
    if isinstance(value, str) and value.startswith(("[{", "{")):
        return _values(json.loads(value))
    if isinstance(value, str) and value.startswith(
        "###"
    ):  # the parts of a judge's prompt
        return sum(1 for part in re.split(r"(?m)^###.+:", value)[1:] if part.strip())
    return 0 if value is None or value == "" else 1


def _import(name: str, row: object, folder: Path) -> list[Imported]:
    questions, path = folder / "questions.jsonl", folder / "rubric.json"
    questions.write_text('{"question": "Q?"}\n')
    path.write_text(json.dumps([row] if name in ROWS else row))
    options = ImportOptions(pitfalls="worded", questions=questions)
    return list(import_tasks(name, path, options=options))


def test_there_is_a_row_of_every_format() -> None:
    assert set(import_formats()) == {
        *ROWS,
        *FILES,
        "paper",
        "checkeval",
        "harbor",
        "table",
    }


@pytest.mark.parametrize("name", sorted({*ROWS, *FILES}))
def test_every_value_is_read_or_left_out_by_name(name: str, tmp_path: Path) -> None:
    row = ROWS.get(name) or FILES[name]
    found = [one.fields for one in _import(name, row, tmp_path)]
    counted = sum(one.read + one.left_out.total() for one in found if one is not None)
    has_question = name in ROWS or name == "criteria"
    assert counted == _values(row) + (0 if has_question else 1)


def _places(
    value: object, path: tuple[str | int, ...] = ()
) -> list[tuple[str | int, ...]]:
    """Return where there are objects."""
    if isinstance(value, dict):
        inner = [
            place for key, one in value.items() for place in _places(one, (*path, key))
        ]
        return [path, *inner]
    if isinstance(value, list):
        return [
            place for n, one in enumerate(value) for place in _places(one, (*path, n))
        ]
    return []


@given(data=st.data(), name=st.sampled_from(sorted({*ROWS, *FILES})))
def test_a_field_that_nobody_knows_is_refused_wherever_it_stands(
    data: st.DataObject, name: str
) -> None:
    row = json.loads(json.dumps(ROWS.get(name) or FILES[name]))
    place = data.draw(st.sampled_from(_places(row)))
    inner = row
    for key in place:
        inner = inner[key]
    inner["zebra"] = data.draw(st.sampled_from(["striped", 3, True, {"a": "b"}, ["x"]]))
    with tempfile.TemporaryDirectory() as folder:
        # To HelloBench each list of questions is a category.
        if _is_left_out(name, place) or (name, inner["zebra"]) == ("hellobench", ["x"]):
            assert _import(name, row, Path(folder))
            return
        with pytest.raises(RubricFileError) as caught:
            _import(name, row, Path(folder))
    assert "striped" not in str(caught.value)
    assert "zebra" in str(caught.value) or name in ("deep_research_bench", "hellobench")


def _is_left_out(name: str, place: tuple[str | int, ...]) -> bool:
    left_out = {"extra_info", "references", "provenance", "judge_prompt_contract"}
    return bool(left_out & set(place)) or (name, place[:1]) == (
        "dr_tulu",
        ("messages",),
    )


def test_a_field_can_be_left_out_by_name(write: Write) -> None:
    row = ROWS["healthbench"] | {"zebra": 1, "rubrics": [RUBRIC | {"note": "n"}]}
    with pytest.raises(
        RubricFileError, match=r"--leave-out 'rubrics\.\*\.note' --leave-out 'zebra'"
    ):
        _one("healthbench", write(row))
    options = ImportOptions(leave_out=("zebra", "rubrics.*.note"))
    fields = _one("healthbench", write(row), options).fields
    assert fields is not None
    assert {one.field for one in fields.left_out} >= {"zebra", "rubrics.*.note"}


def test_scores_in_a_tree_are_left_out_at_every_depth(write: Write) -> None:
    leaf = LEAF | {"score": 1.0, "explanation": "It does.", "valid_score": True}
    tree = ROWS["paperbench"] | {"score": 1.0, "sub_tasks": [leaf]}
    fields = _one("paperbench", write(tree, name="tree.json")).fields
    assert fields is not None
    counts = {one.field: count for one, count in fields.left_out.items()}
    assert counts == {
        "weight": 1,
        "**.score": 2,
        "**.explanation": 1,
        "**.valid_score": 1,
    }


def test_two_names_for_one_part_must_agree(write: Write) -> None:
    row = {"question": "Q?", "rubric": [{"criterion": "a", "points": 2, "weight": 2}]}
    assert _one("checklist", write(row | {"prompt": "Q?"})).task.question == "Q?"
    for change in (
        {"prompt": "Another?"},
        {"rubric": [{"criterion": "a", "points": 2, "weight": 3}]},
    ):
        with pytest.raises(RubricFileError, match="read by nothing here"):
            _one("checklist", write(row | change))


def test_documents_of_a_question_go_with_it_and_to_the_judge(write: Write) -> None:
    task = _one("prbench", write(ROWS["prbench"])).task
    assert "The statute says 5." in task.question
    assert task.grounding.reveal() == "The statute says 5."
    with pytest.raises(RubricFileError, match="prompt_3"):
        _one("prbench", write(ROWS["prbench"] | {"prompt_3": "Lost?"}))
    task = _one("checklist", write(ROWS["checklist"])).task
    assert task.question == (
        "system: Be brief.\n\nuser: What it is about.\n\nSum it up.\n\nA long text."
    )
    assert task.grounding.reveal() == "What it is about.\n\nThe source."


def test_files_that_a_question_needs_are_not_dropped(write: Write) -> None:
    row = ROWS["gdpval"] | {"reference_files": ["reference_files/a.pdf"]}
    with pytest.raises(RubricFileError, match="reference_files"):
        _one("gdpval", write(row))
    rubric = _one("gdpval", write(ROWS["gdpval"])).task.rubric
    assert [(c.id, c.weight, is_penalty(c)) for c in rubric] == [
        ("i-1", 2, False),
        ("i-2", 1, True),
    ]


@pytest.mark.parametrize(
    "name", ["score", "max_points", "max_score", "weight_percentage"]
)
def test_points_count_under_every_name(name: str, write: Write) -> None:
    rubric = [{"criterion": "a", name: 30}, {"criterion": "b", name: "10%"}]
    found = _one("checklist", write({"question": "q", "rubric": rubric})).task.rubric
    assert [c.weight for c in found] == [30, 10]


def test_a_criterion_without_a_weight_beside_weighted_ones_is_refused(
    write: Write,
) -> None:
    rubric = [{"criterion": "a", "points": 30}, {"criterion": "b"}]
    with pytest.raises(RubricFileError, match="has no weight at 1"):
        _one("checklist", write({"question": "q", "rubric": rubric}))


def test_children_share_the_weight_of_their_parent(write: Write) -> None:
    inner = [{"criterion": "a1", "weight": 3}, {"criterion": "a2", "weight": 1}]
    rubric = [
        {"criterion": "A", "weight": 10, "children": inner},
        {"criterion": "B", "weight": 5},
        {"title": "Heading", "criteria": [{"criterion": "c", "weight": 2}]},
    ]
    found = _one("checklist", write({"question": "q", "rubric": rubric})).task.rubric
    assert [(c.description, c.weight) for c in found] == [
        ("a1", 7.5),
        ("a2", 2.5),
        ("B", 5),
        ("c", 2),
    ]
    assert found["c1"].scoring_guide == "Part of: A"
    inner[0]["weight"] = -3
    with pytest.raises(RubricFileError, match="weights ≥ 0"):
        _one("checklist", write({"question": "q", "rubric": rubric}))


def test_options_earn_their_values(write: Write) -> None:
    options = [
        {"label": "bad", "value": 0.0},
        {"label": "fair", "value": 0.4},
        {"label": "good", "value": 1.0},
        {"label": "does not apply", "value": 0.0, "na": True},
    ]
    rubric = [
        {"requirement": "r", "options": options},
        {"requirement": "s", "weight": 2.0},
    ]
    found = _one("checklist", write({"input": "q", "rubric": rubric[:1]}))
    assert found.task.rubric["c1"].scoring_guide.splitlines() == [
        "0% of the weight: bad",
        "40% of the weight: fair",
        "100% of the weight: good",
    ]
    # 10 is what autorubric gives a criterion without a weight.
    both = _one("criteria", write({"input": "q", "rubric": rubric}, name="r.json"))
    assert [c.weight for c in both.task.rubric] == [10, 2]
    lost = [{"requirement": "r", "weight": -4, "options": options[:3]}]
    guide = (
        _one("checklist", write({"input": "q", "rubric": lost}))
        .task.rubric["c1"]
        .scoring_guide
    )
    assert guide.splitlines()[1] == "60% of the weight: fair"


def test_items_of_a_data_set_have_questions_of_their_own(write: Write) -> None:
    rubric = [{"requirement": "r", "weight": 1}]
    items = [
        {"submission": "x", "prompt": "A?"},
        {"submission": "y", "prompt": "A?"},
        {"submission": "z", "prompt": "B?", "reference_submission": "So."},
    ]
    path = write({"rubric": rubric, "items": items}, name="data.json")
    found = [one.task for one in import_tasks("criteria", path)]
    assert [(one.question, one.reference_answer) for one in found] == [
        ("A?", None),
        ("B?", "So."),
    ]


@pytest.mark.parametrize("number", [1_000_000, 12_345_678, 2**53 + 1, 0, 10**20])
def test_numbers_are_ids_to_the_last_digit(number: int, write: Write) -> None:
    rubric = [{"id": number, "criterion": "a"}, {"id": number + 1, "criterion": "b"}]
    found = _one("checklist", write({"id": number, "question": "q", "rubric": rubric}))
    assert found.source_id == str(number)
    assert found.task.rubric.ids == (str(number), str(number + 1))


def test_a_file_of_instances_gives_them_their_names(write: Write) -> None:
    row = {"question": "q", "rubric": ["a"]}
    path = write({"first": row, "second": row}, name="rows.json")
    assert [one.source_id for one in import_tasks("checklist", path)] == [
        "first",
        "second",
    ]


PITFALLS = [
    "Pitfall Criteria: Does not mention the need for follow-up",
    "Pitfall Criteria: Recommends antibiotics",
    "Pitfall Criteria: Does not recommend surgery",
]


def _rar(*texts: str) -> dict[str, object]:
    rubric = [{"title": "t", "description": text, "weight": -1} for text in texts]
    essential = {"title": "e", "description": "Essential Criteria: d", "weight": 5}
    return {"question": "q", "reference_answer": "r", "rubric": [essential, *rubric]}


def test_pitfalls_of_both_kinds_in_one_file_are_told_apart_by_their_verbs(
    write: Write,
) -> None:
    worded = ImportOptions(pitfalls="worded")
    rubric = _one("rar", write(_rar(*PITFALLS)), worded).task.rubric
    assert [is_penalty(c) for c in rubric] == [False, True, True, False]
    for flag in ("worded", None):
        with pytest.raises(RubricFileError, match=r"rubric\.1\.weight"):
            _one(
                "rar",
                write(_rar("Does not state that it is safe")),
                ImportOptions(flag),
            )
    # What an answer lacks is no avoidance, whatever the rest of the file is.
    with pytest.raises(RubricFileError, match="worded"):
        _one("rar", write(_rar(PITFALLS[0])), ImportOptions(pitfalls="avoidance"))


def test_a_pitfall_that_denies_nothing_is_a_fault_under_every_flag(
    write: Write,
) -> None:
    for flag in (None, "avoidance", "failure", "worded"):
        rubric = _one("rar", write(_rar(PITFALLS[1])), ImportOptions(flag)).task.rubric
        assert is_penalty(rubric["c2"])


def test_a_reference_answer_is_cut_to_what_stands_behind_its_thought(
    write: Write,
) -> None:
    row = _rar() | {"reference_answer": "<think>\nIs it 4?\n</think>\n\nIt is 5."}
    found = _one("rar", write(row))
    assert found.task.reference_answer == "It is 5."
    assert found.task.grounding.reveal() == "It is 5."
    assert found.reference_thought is Thought.CLOSED
    found = _one("rar", write(row | {"reference_answer": "<think>\nIs it"}))
    assert found.task.reference_answer is None
    assert found.reference_thought is Thought.UNCLOSED


def test_a_judge_file_of_reward_kit_is_read(write: Write, tmp_path: Path) -> None:
    questions = write({"question": "Q?"}, name="q.jsonl")
    path = tmp_path / "quality.toml"
    path.write_text(
        '[judge]\njudge = "a-model"\nmode = "individual"\n\n'
        '[[criterion]]\ndescription = "Is it right?"\nid = "R1"\n\n'
        '[[criterion]]\ndescription = "How clear is it?"\ntype = "likert"\n'
        "points = 4\nweight = 2.0\n\n"
        '[[criterion]]\ndescription = "Does it repeat itself?"\nnegate = true\n\n'
        '[[criterion]]\ndescription = "How complete?"\ntype = "rubric"\n'
        'levels = ["no", "half", "all"]\n'
    )
    options = ImportOptions(questions=questions)
    rubric = _one("rewardkit", path, options).task.rubric
    assert [c.weight for c in rubric] == [1, 2, 1, 1]
    guides = [c.scoring_guide for c in rubric]
    assert guides[0] == ""
    assert guides[1].splitlines()[1:] == [
        "0% of the weight: 1",
        "100% of the weight: 4",
    ]
    assert rubric.criteria[2].description == "Must not hold: Does it repeat itself?"
    assert guides[3].splitlines()[1] == "50% of the weight: half"
    text = path.read_text()
    for change in (
        '[scoring]\naggregation = "all-pass"\n',
        '[judge]\nreference = "gold.md"\n',
    ):
        path.write_text(change + text.partition("\n\n")[2])
        with pytest.raises(RubricFileError, match=r"aggregation|reference"):
            _one("rewardkit", path, options)
    without = ImportOptions(questions=questions, leave_out=("judge.reference",))
    assert len(_one("rewardkit", path, without).task.rubric) == 4


def test_anchors_of_a_rubric_spec_are_its_guide(tmp_path: Path) -> None:
    (found,) = _import("rubric_spec", FILES["rubric_spec"], tmp_path)
    assert found.task.rubric["a"].scoring_guide.splitlines() == [
        "0% of the weight: wrong",
        "100% of the weight: right",
        "Example: 5 is right",
    ]


def test_prometheus_has_parts_prompts_and_pairs(write: Write) -> None:
    parts = {
        "instruction": "Say hello.",
        "rubric": {"criteria": "Is it kind?", **_levels("score{}_description")},
        "reference_answer": "Hello!",
    }
    pair = {
        "chosen_instruction": _prompt("Hi."),
        "rejected_instruction": _prompt("No."),
    }
    for row in (parts, pair, ROWS["prometheus"]):
        task = _one("prometheus", write(row)).task
        assert (task.question, task.reference_answer) == ("Say hello.", "Hello!")
        assert task.rubric["c1"].description == "Is it kind?"
    pair["rejected_instruction"] = pair["rejected_instruction"].replace(
        "hello.", "goodbye."
    )
    with pytest.raises(RubricFileError, match="something else"):
        _one("prometheus", write(pair))
    more = _prompt("No.").replace(
        "###Feedback", "###Background:\nIt rains.\n\n###Feedback"
    )
    with pytest.raises(RubricFileError, match="does not belong to a Prometheus prompt"):
        _one("prometheus", write({"instruction": more}))


def test_a_checkeval_file_keeps_definition_and_every_line(
    write: Write, tmp_path: Path
) -> None:
    questions = write({"question": "A?"}, name="q.jsonl")
    path = tmp_path / "c.yaml"
    text = "definition:\n  x: Is it one whole.\n\nsub_aspect:\n  Flow:\n    Does it flow?\n"
    path.write_text(text)
    options = ImportOptions(questions=questions)
    (criterion,) = _one("checkeval", path, options).task.rubric
    assert criterion.scoring_guide == "x: Is it one whole."
    path.write_text(f"{text}    It should flow.\n")
    with pytest.raises(RubricFileError, match=":7:"):
        _one("checkeval", path, options)
