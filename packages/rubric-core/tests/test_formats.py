import json
import tempfile
from codecs import BOM_UTF8
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import (
    ConfigError,
    CriterionKind,
    RubricFileError,
    Section,
    Task,
    group_advantages,
    read_tasks,
    write_tasks,
)
from rubric_core.formats import (
    Imported,
    ImportOptions,
    export_formats,
    export_tasks,
    import_formats,
    import_tasks,
    is_penalty,
    source_scale,
)
from rubric_core.formats.draft import Draft, Points, imported
from rubric_core.schema.conversation import as_messages, as_question

Write = Callable[..., Path]


def _one(name: str, path: Path, options: ImportOptions | None = None) -> Imported:
    (found,) = import_tasks(name, path, options=options)
    return found


HEALTHBENCH = {
    "prompt_id": "p-1",
    "prompt": [{"role": "user", "content": "Is my potassium of 3.9 normal?"}],
    "rubrics": [
        {
            "criterion": "Says that 3.9 is within the normal range",
            "points": 6,
            "tags": ["a:b"],
        },
        {"criterion": "Recommends potassium tablets", "points": -4, "tags": []},
        {"criterion": "Asks about symptoms", "points": 2, "tags": []},
    ],
    "ideal_completions_data": {
        "ideal_completion": "Yes, it is normal. How do you feel?"
    },
}


def test_healthbench_keeps_order_points_and_signs(write: Write) -> None:
    found = _one("healthbench", write(HEALTHBENCH))
    assert found.source_id == "p-1"
    assert found.task.question == "Is my potassium of 3.9 normal?"
    assert [c.weight for c in found.task.rubric] == [6, 4, 2]
    assert [is_penalty(c) for c in found.task.rubric] == [False, True, False]
    assert found.task.reference_answer == "Yes, it is normal. How do you feel?"


def test_a_kind_of_ours_is_kept_and_another_label_is_none(write: Write) -> None:
    first, second, third = HEALTHBENCH["rubrics"]
    row = {"question": "Is it?", "rubrics": [{**first, "kind": "limit"}, second, third]}
    found = _one("checklist", write(row)).task.rubric
    assert [c.kind for c in found] == [CriterionKind.LIMIT, None, None]
    row["rubrics"][0]["kind"] = "accuracy"
    with pytest.raises(RubricFileError, match="kind"):
        _one("checklist", write(row))


def test_source_scale_gives_healthbench_score(write: Write) -> None:
    rubric = _one("healthbench", write(HEALTHBENCH)).task.rubric
    scale = source_scale(rubric)
    # Met: the first, and the penalty's fault. HealthBench: (6 − 4) / 8; ours: 6 / 12.
    assert scale.source_score(6 / 12) == pytest.approx((6 - 4) / 8)
    # Everything good and no fault; nothing good and the fault.
    assert scale.source_score(1.0) == pytest.approx(1.0)
    assert scale.source_score(0.0) == pytest.approx(-4 / 8)


@given(
    points=st.lists(st.integers(-10, 10).filter(bool), min_size=2, max_size=8).filter(
        lambda p: max(p) > 0
    ),
    data=st.data(),
)
def test_signed_points_and_our_weights_give_the_same_advantages(
    points: list[int], data: st.DataObject
) -> None:
    met_GM = np.array(
        data.draw(
            st.lists(
                st.lists(st.booleans(), min_size=len(points), max_size=len(points)),
                min_size=2,
                max_size=6,
            )
        )
    )
    criteria = tuple(Points(text="t", points=float(p)) for p in points)
    rubric = imported(Draft(criteria, (("user", "q"),))).task.rubric
    signed_G = met_GM @ np.array(points) / sum(p for p in points if p > 0)
    earned_GM = np.where([is_penalty(c) for c in rubric], ~met_GM, met_GM)
    rewards_G = earned_GM @ rubric.weights_M / rubric.total_weight
    scale = source_scale(rubric)
    assert np.allclose([scale.source_score(r) for r in rewards_G], signed_G)
    ours, theirs = (
        group_advantages(x[None, :], delta=0.0) for x in (rewards_G, signed_G)
    )
    if np.ptp(signed_G) > 1e-9:
        assert np.allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("name", ["healthbench", "rar", "rubrichub"])
def test_an_exported_rubric_comes_back_with_its_signs(
    name: str, write: Write, tmp_path: Path
) -> None:
    task = _one("healthbench", write(HEALTHBENCH)).task
    out = tmp_path / "out.jsonl"
    assert export_tasks(name, out, [task]) == 1
    again = _one(name, out, ImportOptions(pitfalls="failure")).task
    assert [(c.description, c.weight) for c in again.rubric] == [
        (c.description, c.weight) for c in task.rubric
    ]
    assert again.question == task.question


def test_the_policy_format_holds_neither_passage_nor_rubric(
    write: Write, tmp_path: Path
) -> None:
    task = _one("healthbench", write(HEALTHBENCH)).task
    out = tmp_path / "out.jsonl"
    export_tasks("policy", out, [task])
    text = out.read_text()
    assert task.task_id in text
    assert "normal range" not in text
    assert "How do you feel" not in text


RAR = {
    "question": "Why is the sky blue?",
    "reference_answer": "Rayleigh scattering.",
    "rubric": [
        {
            "title": "Scattering",
            "description": "Essential Criteria: names it",
            "weight": 5,
        },
        {
            "title": "Ocean",
            "description": "Pitfall Criteria: does not blame it",
            "weight": -1,
        },
    ],
}


def test_pitfalls_need_their_polarity_said(write: Write) -> None:
    path = write(RAR)
    with pytest.raises(RubricFileError, match="avoidance") as caught:
        _one("rar", path)
    assert (caught.value.line, caught.value.field) == (1, "rubric.1.weight")
    avoided = _one("rar", path, ImportOptions(pitfalls="avoidance")).task.rubric
    failed = _one("rar", path, ImportOptions(pitfalls="failure")).task.rubric
    assert [is_penalty(c) for c in avoided] == [False, False]
    assert [is_penalty(c) for c in failed] == [False, True]
    assert [c.weight for c in avoided] == [c.weight for c in failed] == [5, 1]


def test_arrow_columns_of_json_text_are_read(write: Write) -> None:
    row = {**RAR, "rubric": json.dumps(RAR["rubric"])}
    options = ImportOptions(pitfalls="avoidance")
    assert len(_one("rar", write(row), options).task.rubric) == 2


def test_a_paperbench_leaf_weighs_its_share_of_the_root(write: Write) -> None:
    def leaf(name: str, weight: int) -> dict[str, object]:
        return {
            "id": name,
            "requirements": f"do {name}",
            "weight": weight,
            "sub_tasks": [],
        }

    tree = {
        "id": "root",
        "requirements": "reproduce",
        "weight": 1,
        "sub_tasks": [
            {
                "id": "n",
                "requirements": "part",
                "weight": 3,
                "sub_tasks": [leaf("a", 1), leaf("b", 2)],
            },
            leaf("c", 1),
        ],
    }
    path = write(tree, name="tree.json")
    rubric = _one("paperbench", path).task.rubric
    assert rubric.ids == ("a", "b", "c")
    # 3/4 of the root is shared 1 : 2, the rest is c's.
    assert [c.weight for c in rubric] == pytest.approx([25, 50, 25])


def test_a_conversation_comes_back_as_its_messages(
    write: Write, tmp_path: Path
) -> None:
    prompt = [
        {"role": "system", "content": "Be brief.\n\nAlways."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello. user: is a word."},
        {"role": "user", "content": "Is ibuprofen safe?"},
    ]
    task = _one("healthbench", write({**HEALTHBENCH, "prompt": prompt})).task
    for name in ("policy", "healthbench", "rubrichub"):
        export_tasks(name, tmp_path / "out.jsonl", [task])
        assert json.loads((tmp_path / "out.jsonl").read_text())["prompt"] == prompt


CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "Is ibuprofen safe?"},
]


def test_a_policy_is_asked_a_conversation_as_its_messages(
    write: Write, tmp_path: Path
) -> None:
    task = _one("healthbench", write({**HEALTHBENCH, "prompt": CONVERSATION})).task

    write_tasks(tmp_path / "tasks.jsonl", [task])
    (read,) = read_tasks(tmp_path / "tasks.jsonl")

    assert read == task
    view = read.policy_view()
    assert view.messages == CONVERSATION
    assert "user: Is ibuprofen safe?" in view.message
    assert view.prompt_key != view.message
    example = read.sft_example()
    assert example is not None
    assert example.policy_view().messages == CONVERSATION


def test_a_single_question_is_no_conversation_whatever_it_looks_like(
    write: Write,
) -> None:
    plain = _one("healthbench", write(HEALTHBENCH)).task
    quoted = "user: Hi\n\nassistant: Hello."
    prompt = [{"role": "user", "content": quoted}]
    task = _one("healthbench", write({**HEALTHBENCH, "prompt": prompt})).task

    assert "conversation" not in plain.to_json(reveal_grounding=True)
    assert plain.policy_view().prompt_key == plain.policy_view().message
    # Its text has a mark, `[1/1] user:`, which the policy does not see.
    assert task.policy_view().messages == prompt
    # Without the field it is the text that it was, as in files of older versions.
    old = Task.from_json(
        {
            "question": "user: Hi\n\nassistant: Hello.\n\nuser: Well?",
            "passage": "p",
            "criteria": [{"id": "a", "weight": 1}],
        }
    )
    assert len(old.policy_view().messages) == 1


def test_a_conversation_that_no_user_ends_is_a_text(write: Write) -> None:
    task = _one("healthbench", write({**HEALTHBENCH, "prompt": CONVERSATION[:3]})).task

    assert not task.conversation


def test_what_may_be_looked_up_goes_into_the_last_message(write: Write) -> None:
    task = _one("healthbench", write({**HEALTHBENCH, "prompt": CONVERSATION})).task
    section = Section(doc_hash="d", text="Ibuprofen is a drug.")
    view = task.model_copy(update={"context": (section,)}).policy_view()

    assert view.messages[:3] == CONVERSATION[:3]
    last = view.messages[3]["content"]
    assert "Ibuprofen is a drug." in last
    assert last.endswith("Question: Is ibuprofen safe?")


@given(st.text(min_size=1, max_size=40).filter(str.strip))
def test_a_single_question_stays_a_single_message(question: str) -> None:
    assert as_messages(question) == [{"role": "user", "content": question}]


_PIECES = st.sampled_from(
    [
        *(
            "Hi",
            "user: ",
            "assistant: ",
            "\n\nuser: x",
            "\n\nassistant: y",
            "\n\n",
            "tool: ",
        ),
        *(
            "[1/1] user: ",
            "[1/2] user: ",
            "\n\n[2/2] assistant: ",
            "[[1/2]] user: ",
            "]",
            "[",
        ),
    ]
)
_TURNS = st.tuples(
    st.sampled_from(["user", "assistant", "system", "developer", "tool"]),
    st.lists(_PIECES, min_size=1, max_size=5).map("".join).filter(str.strip),
)


@given(st.lists(_TURNS, min_size=1, max_size=4))
def test_a_chat_that_a_message_quotes_makes_no_turns(
    turns: list[tuple[str, str]],
) -> None:
    messages = [{"role": role, "content": content} for role, content in turns]
    assert as_messages(as_question(turns)) == messages


def test_a_quoted_chat_is_exported_as_the_message_that_quotes_it(
    write: Write, tmp_path: Path
) -> None:
    chat = "user: hi\n\nassistant: hello"
    for prompt in (
        [{"role": "user", "content": chat}],
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": f"What is wrong here?\n\n{chat}"},
        ],
    ):
        task = _one("healthbench", write({**HEALTHBENCH, "prompt": prompt})).task
        export_tasks("policy", tmp_path / "out.jsonl", [task])
        assert json.loads((tmp_path / "out.jsonl").read_text())["prompt"] == prompt


def test_a_message_of_another_kind_is_refused(write: Write) -> None:
    image = {"type": "image_url", "image_url": {"url": "x"}}
    for content in ([image], [{"type": "text", "text": "Look."}, image]):
        prompt = [{"role": "user", "content": content}]
        with pytest.raises(RubricFileError, match=r"prompt\.0\.content\.\d\.type"):
            _one("healthbench", write({**HEALTHBENCH, "prompt": prompt}))


def test_levels_become_steps_above_the_lowest(write: Write) -> None:
    rubric = {"criteria": "Is it kind?"} | {
        f"score{n}_description": f"level {n}" for n in range(1, 6)
    }
    row = {
        "id": "b1",
        "input": "Say hello.",
        "reference_answer": "Hello!",
        "score_rubric": rubric,
    }
    (criterion,) = _one("biggen", write(row)).task.rubric
    assert criterion.weight == 4
    assert criterion.scoring_guide.splitlines() == [
        f"{n - 1}: level {n}" for n in range(1, 6)
    ]


def test_a_prometheus_prompt_is_taken_apart(write: Write) -> None:
    levels = "\n".join(f"Score {n}: level {n}" for n in range(1, 6))
    prompt = (
        "###Task Description:\nJudge.\n\n###The instruction to evaluate:\nSay hello.\n\n"
        "###Response to evaluate:\nNo.\n\n###Reference Answer (Score 5):\nHello!\n\n"
        f"###Score Rubrics:\n[Is it kind?]\n{levels}\n\n###Feedback: "
    )
    task = _one("prometheus", write({"idx": 7, "instruction": prompt})).task
    assert task.question == "Say hello."
    assert task.reference_answer == "Hello!"
    assert task.rubric["c1"].description == "Is it kind?"


def test_profbench_words_are_weights(write: Write) -> None:
    rubrics = [
        {"criterion_description": "x", "criterion_weight": word}
        for word in ("Critical", "Major", "Minor", "Additional")
    ]
    row = {"task_id": "Finance-0", "prompt": "q", "rubrics": rubrics}
    assert [c.weight for c in _one("profbench", write(row)).task.rubric] == [4, 3, 2, 1]
    rubrics[0]["criterion_weight"] = "Vital"
    with pytest.raises(RubricFileError, match="critical, major, minor, additional"):
        _one("profbench", write(row))


def test_prbench_takes_the_weight_of_its_class(write: Write) -> None:
    notes = {
        "criteria_description": "cites the statute",
        "weight_class": "critically important",
        "critically_important_weight": 9,
        "important_weight": 4,
    }
    row = {
        "task": "t1",
        "prompt_0": "First?",
        "response_0": "Yes.",
        "prompt_1": "And then?",
        "rubric": [{"id": "r1", "title": "Cites", "annotations": notes}],
    }
    task = _one("prbench", write(row)).task
    assert task.rubric["r1"].weight == 9
    assert task.question == "user: First?\n\nassistant: Yes.\n\nuser: And then?"


def test_a_question_whose_right_answer_is_no_is_a_fault(write: Write) -> None:
    rubric = [
        {"question": "Did it apologise?", "pass_criteria": "NO"},
        {"question": "Did it answer?", "pass_criteria": "YES"},
    ]
    row = {"uuid": "u", "responses_create_params": {"input": "q"}, "rubric": rubric}
    assert [is_penalty(c) for c in _one("multichallenge", write(row)).task.rubric] == [
        True,
        False,
    ]


def test_dr_tulu_keeps_its_rubric_in_a_text(write: Write) -> None:
    inner = {
        "query": "q?",
        "rubrics": [{"description": "d", "title": "t", "weight": 2}],
    }
    task = _one("dr_tulu", write({"ground_truth": json.dumps(inner)})).task
    assert (task.question, task.rubric["c1"].weight) == ("q?", 2)


def test_openrubrics_lines_become_criteria(write: Write) -> None:
    text = "1. Is short [Hard Rule]\n2. Explains why [Principle]"
    rubric = _one(
        "openrubrics", write({"instruction": "q", "rubric": text})
    ).task.rubric
    assert [(c.description, c.name) for c in rubric] == [
        ("Is short", "Hard rule"),
        ("Explains why", "Principle"),
    ]


def test_scholarqabench_evidence_is_the_passage(write: Write) -> None:
    item = {
        "name": "i0",
        "criterion": "Define it.",
        "weight": 0.6,
        "evidence": ["It is X.", "So Y."],
    }
    config = {"question": "What is it?", "other_properties": [item]}
    row = {"case_id": "1", "metric_config": {"config": config}}
    assert (
        _one("scholarqabench", write(row)).task.grounding.reveal()
        == "It is X.\n\nSo Y."
    )


def test_dimensions_multiply_their_criteria(write: Write) -> None:
    def item(weight: float) -> dict[str, object]:
        return {"criterion": "c", "explanation": "e", "weight": weight}

    row = {
        "id": 51,
        "prompt": "q",
        "dimension_weight": {"depth": 0.25, "form": 0.75},
        "criterions": {"depth": [item(1.0)], "form": [item(0.4), item(0.6)]},
    }
    found = _one("deep_research_bench", write(row))
    assert found.source_id == "51"
    assert [c.weight for c in found.task.rubric] == pytest.approx([25, 30, 45])


def test_a_rubric_file_meets_every_question(write: Write, tmp_path: Path) -> None:
    questions = write(
        {"question": "A?"}, {"question": "B?", "passage": "P."}, name="q.jsonl"
    )
    rubric = tmp_path / "rubric.toml"
    rubric.write_text(
        '[[criteria]]\nname = "clear"\ntext = "Is it clear?"\nweight = 2.0\n'
        'choices = ["no", "partly", "yes"]\n'
    )
    with pytest.raises(ConfigError, match="questions"):
        list(import_tasks("criteria", rubric))
    found = list(
        import_tasks("criteria", rubric, options=ImportOptions(questions=questions))
    )
    assert [one.task.question for one in found] == ["A?", "B?"]
    assert found[1].task.grounding.reveal() == "P."
    assert "50% of the weight: partly" in found[0].task.rubric["c1"].scoring_guide


def test_a_list_of_signed_requirements_is_read(write: Write) -> None:
    questions = write({"question": "A?"}, name="q.jsonl")
    path = write(
        [{"weight": 10, "requirement": "r"}, {"weight": -15, "requirement": "s"}],
        name="r.json",
    )
    path.write_bytes(BOM_UTF8 + path.read_bytes())
    rubric = _one("criteria", path, ImportOptions(questions=questions)).task.rubric
    assert [(c.weight, is_penalty(c)) for c in rubric] == [(10, False), (15, True)]


def test_checkeval_text_is_read_leniently(write: Write, tmp_path: Path) -> None:
    questions = write({"question": "A?"}, name="q.jsonl")
    path = tmp_path / "c.yaml"
    path.write_text(
        "definition:\n  x: Is it?\n\n"
        "sub_aspect:\n  Flow:\n    Does it flow?\n  Tone:\n    Is it kind?\n"
    )
    path.write_bytes(BOM_UTF8 + path.read_bytes())
    rubric = _one("checkeval", path, ImportOptions(questions=questions)).task.rubric
    assert [(c.name, c.description) for c in rubric] == [
        ("Flow", "Does it flow?"),
        ("Tone", "Is it kind?"),
    ]


def test_equal_questions_share_a_document_so_that_a_split_keeps_them_together(
    write: Write,
) -> None:
    one, two = import_tasks(
        "healthbench", write(HEALTHBENCH, {**HEALTHBENCH, "prompt_id": "p-2"})
    )
    assert one.task.doc_hash == two.task.doc_hash
    other = HEALTHBENCH | {"prompt": "Something else?"}
    assert _one("healthbench", write(other)).task.doc_hash != one.task.doc_hash


def test_repeated_ids_are_made_unique(write: Write) -> None:
    rubric = [{"id": "C1", "criteria": "a"}, {"id": "C1", "criteria": "b"}]
    row = {"prompt": "q", "rubric": rubric}
    assert _one("inverse_if", write(row)).task.rubric.ids == ("1_C1", "2_C1")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"rubrics": []}, "rubrics"),
        ({"rubrics": "no json"}, "rubrics"),
        ({"rubrics": [3]}, "rubrics.0"),
        ({"rubrics": [{"points": 1}]}, "rubrics.0.criterion"),
        ({"rubrics": [{"criterion": "x", "points": "many"}]}, "rubrics.0.points"),
        ({"rubrics": [{"criterion": "x", "points": True}]}, "rubrics.0.points"),
        ({"rubrics": [{"criterion": "x", "points": 0}]}, "criteria"),
    ],
)
def test_a_row_out_of_shape_is_named_and_the_others_are_kept(
    change: dict[str, object], field: str, write: Write
) -> None:
    path = write(HEALTHBENCH, HEALTHBENCH | change, HEALTHBENCH)
    with pytest.raises(RubricFileError) as caught:
        list(import_tasks("healthbench", path))
    assert (caught.value.line, caught.value.field) == (2, field)
    rejected: list[RubricFileError] = []
    assert len(list(import_tasks("healthbench", path, on_reject=rejected.append))) == 2
    assert len(rejected) == 1


def test_errors_hold_no_text_of_the_row(write: Write) -> None:
    row = HEALTHBENCH | {
        "rubrics": [{"criterion": "the secret criterion", "points": "lots"}]
    }
    with pytest.raises(RubricFileError) as caught:
        list(import_tasks("healthbench", write(row)))
    assert "secret" not in str(caught.value)


def test_unknown_formats_name_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'healthbench'"):
        import_tasks("helthbench", tmp_path / "x.jsonl")
    with pytest.raises(ConfigError, match="did you mean 'rar'"):
        export_tasks("raar", tmp_path / "x.jsonl", [])


def test_formats_are_listed() -> None:
    assert {"healthbench", "rar", "paperbench", "criteria", "paper"} <= set(
        import_formats()
    )
    assert {"healthbench", "policy", "nemo_gym"} <= set(export_formats())


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["prompt", "rubrics", "criterion", "points", "role"]),
                inner,
            )
        ),
        max_leaves=12,
    )
)
def test_no_row_raises_anything_but_a_file_error(value: object) -> None:
    row = value if isinstance(value, dict) else {"prompt": value, "rubrics": value}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "row.json")
        path.write_text(json.dumps([row]))
        for name in set(import_formats()) - {"paper", "checkeval", "harbor", "table"}:
            with suppress(ConfigError):  # a rubric that needs a question
                list(import_tasks(name, path, on_reject=lambda _: None))
