import json
import time

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubric_judge import VerificationError, parse_verification
from rubric_judge.checks.pattern import ProcessorTime
from rubric_judge.checks.schema import (
    MOST_STEPS,
    PATTERNS_S,
    SchemaCheck,
    matches_schema,
    read_schema,
)
from rubric_judge.checks.validation import StepsError

DRAFT = "https://json-schema.org/draft/2020-12/schema"
PERSON = """
{
  "type": "object",
  "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
  "required": ["name", "age"],
  "additionalProperties": false
}
"""


def _matched(
    check: SchemaCheck,
    text: str,
    *,
    steps: int = MOST_STEPS,
    time_left: ProcessorTime | None = None,
) -> tuple[bool, str]:
    time_left = time_left or ProcessorTime(PATTERNS_S)
    return matches_schema(check, text, steps=steps, time_left=time_left)


def _matches(schema: str, response: str) -> bool:
    check = parse_verification(f"json_schema: {schema}")
    assert isinstance(check, SchemaCheck)
    return _matched(check, response)[0]


@pytest.mark.parametrize(
    "response",
    [
        '{"name": "Ada", "age": 36}',
        '  {"age": 36.0, "name": "Ada"}\n',
        'Here it is:\n```json\n{"name": "Ada", "age": 36}\n```\nDone.',
        'Here it is:\n```\n{"name": "Ada", "age": 36}\n```\n```python\nx = 1\n```',
    ],
)
def test_matching_json_is_found_whole_or_in_its_block(response: str) -> None:
    assert _matches(PERSON, response)


@pytest.mark.parametrize(
    ("response", "why"),
    [
        ('{"name": "Ada"}', "fails `required`"),
        ('{"name": "Ada", "age": -1}', "fails `minimum`"),
        ('{"name": "Ada", "age": 36, "x": 1}', "fails `additionalProperties`"),
        ('{"name": "Ada", "age": NaN}', "cannot be read"),
        ('{"name": "Ada", "name": "Bob", "age": 1}', "cannot be read"),
        ('{"name": "Ada", "age": 36', "cannot be read"),
        ("Ada is 36.", "neither the response nor"),
        ('```json\n{"name": "Ada", "age": 36}\n```\n```json\n{}\n```', "neither"),
        ('```json\n{"name": "Ada", "age": 36}', "neither"),
        ("[" * 50_000, "nests more than 400 deep"),
        ('{"name": "' + "a" * 100_000 + '", "age": 1}', "more than"),
    ],
)
def test_what_does_not_match_says_why_without_its_text(response: str, why: str) -> None:
    passed, note = _matched(read_schema(PERSON), response)

    assert not passed
    assert why in note
    assert "Ada" not in note


def test_the_schema_may_stand_on_the_line_or_below_it() -> None:
    below = parse_verification(f"json_schema:\n{PERSON}")
    beside = parse_verification(f"json_schema: {PERSON.strip()}")

    assert below == beside


@pytest.mark.parametrize(
    ("schema", "remedy"),
    [
        ("", "not JSON: see its line 2"),
        ("[]", "needs a JSON object"),
        ("{'type': 'object'}", "not JSON"),
        ('{"type": "objekt"}', "no schema of draft 2020-12: see `anyOf`"),
        (
            '{"$ref": "https://example.org/schema.json"}',
            "only refer to a part of itself",
        ),
        (
            '{"properties": {"a": {"$ref": "file:///etc/passwd"}}}',
            "only refer to a part of itself",
        ),
        ('{"patternProperties": {"(a+)+$": {}}}', "cannot use patternProperties"),
        ('{"$ref": "#/nowhere"}', "only refer to a part of itself"),
        ('{"$id": "https://example.org"}', "cannot use $id"),
        ('{"pattern": "("}', "is no pattern"),
        ('{"$schema": "http://json-schema.org/draft-07/schema#"}', "draft 2020-12"),
        ('{"a": 1, "a": 2}', "no usable JSON"),
        ('{"a": NaN}', "no usable JSON"),
        ('{"not": ' * 3000 + "{}" + "}" * 3000, "no usable JSON"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: str, remedy: str) -> None:
    with pytest.raises(VerificationError) as caught:
        parse_verification(f"json_schema: {schema}")
    assert remedy in str(caught.value) or "nests too deep" in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "response"),
    [
        ('{"type": "array", "items": {"pattern": "^(a+)+$"}}', json.dumps(["a" * 40 + "!"])),
        ('{"uniqueItems": true}', json.dumps([[i, str(i), None] for i in range(4000)])),
        ('{"items": {"$ref": "#"}}', "[" * 900 + "]" * 900),
        ('{"$ref": "#"}', "1"),
    ],
)  # fmt: skip
def test_hostile_json_is_decided_in_bounded_time(schema: str, response: str) -> None:
    started_s = time.process_time()

    _matched(read_schema(schema), response)

    assert time.process_time() - started_s < 2.0


EXPRESSION = json.dumps({
    "$defs": {"e": {"oneOf": [
        *({
            "type": "object",
            "properties": {"op": {"const": op}, **{key: {"$ref": "#/$defs/e"} for key in "lr"}},
            "required": ["op", "l", "r"],
        } for op in ("add", "mul")),
        {"type": "number"},
    ]}},
    "$ref": "#/$defs/e",
})  # fmt: skip


def _expression(depth: int, innermost: str) -> str:
    return '{"op":"add","r":1,"l":' * depth + innermost + "}" * depth


@pytest.mark.parametrize("innermost", ["1", '"x"'])
def test_a_tree_is_read_once_however_deep(innermost: str) -> None:
    check = read_schema(EXPRESSION)

    assert _matched(check, _expression(200, innermost))[0] == (innermost == "1")
    assert _matched(check, _expression(20, innermost), steps=1_000)[0] == (
        innermost == "1"
    )


NESTED: dict[str, object] = {
    "e": {"anyOf": [{"contains": {"$ref": "#/$defs/e"}}, {"allOf": [{}] * 300}]}
}


@pytest.mark.parametrize(
    ("schema", "response"),
    [
        (
            {"items": {"enum": [[n] for n in range(500)]}, "maxItems": 1e6},
            [[[n]] for n in range(9)],
        ),
        ({"$defs": NESTED, "$ref": "#/$defs/e"}, [[n] for n in range(3000)]),
        (
            {"items": {"dependentRequired": {f"k{n}": ["a"] for n in range(2000)}}},
            [{}] * 20_000,
        ),
        (
            {"items": {"dependentSchemas": {f"k{n}": {} for n in range(2000)}}},
            [{}] * 20,
        ),
        ({"items": {"properties": {f"k{n}": {} for n in range(2000)}}}, [{}] * 20_000),
    ],
)
def test_what_takes_more_steps_than_are_allowed_is_not_decided(
    schema: dict[str, object], response: object
) -> None:
    check = read_schema(json.dumps(schema))

    with pytest.raises(StepsError):
        _matched(check, json.dumps(response), steps=300)


def test_the_steps_depend_on_nothing_else() -> None:
    check, response = read_schema(EXPRESSION), _expression(30, "1")

    def fewest() -> int:
        low, high = 0, 10_000
        while low < high:
            middle = (low + high) // 2
            try:
                _matched(check, response, steps=middle)
                high = middle
            except StepsError:
                low = middle + 1
        return low

    def deeper(levels: int) -> int:
        return deeper(levels - 1) if levels else fewest()

    assert 100 < fewest() == deeper(300) < 2_000


def test_the_patterns_of_a_schema_share_their_time() -> None:
    check = read_schema('{"contains": {"pattern": "(a+)+$"}}')
    response = json.dumps(["a" * 40 + "!"] * 2_000)
    started_s = time.process_time()

    with pytest.raises(TimeoutError):
        _matched(check, response, time_left=ProcessorTime(0.01))

    assert time.process_time() - started_s < 1.0


def test_a_schema_that_says_its_draft_has_the_same_bounds() -> None:
    schema = {"$schema": DRAFT, "pattern": "(a+)+$", "items": {"$ref": "#"}}

    with pytest.raises(TimeoutError):
        _matched(
            read_schema(json.dumps(schema)),
            json.dumps([["a" * 5_000 + "!"]]),
            time_left=ProcessorTime(0.01),
        )


documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "a", "ab", "1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=6,
)
schemas = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            ["object", "array", "string", "integer", "number", "null"]
        ),
        "minimum": st.integers(-3, 3),
        "multipleOf": st.integers(1, 3),
        "enum": st.lists(documents, min_size=1, max_size=3),
        "const": documents,
        "pattern": st.sampled_from(["a", "^b", "1$"]),
        "uniqueItems": st.booleans(),
        "maxItems": st.integers(0, 2),
        "required": st.lists(st.sampled_from("ab"), unique=True),
        "properties": st.dictionaries(
            st.sampled_from("ab"), st.just({"type": "integer"})
        ),
        "contains": st.just({"type": "string"}),
        "minContains": st.integers(0, 2),
        "exclusiveMaximum": st.integers(-3, 3),
        "propertyNames": st.just({"maxLength": 0}),
        "dependentRequired": st.just({"a": ["b"]}),
    },
)
parts = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            ("allOf", "anyOf", "oneOf"), st.lists(schemas, min_size=1, max_size=3)
        ),
        **dict.fromkeys(("not", "if", "then", "else"), schemas | st.booleans()),
        "prefixItems": st.lists(schemas, min_size=1, max_size=2),
        "items": schemas | st.booleans(),
        "additionalProperties": schemas | st.booleans(),
        "dependentSchemas": st.dictionaries(st.sampled_from("ab"), schemas, max_size=1),
        "unevaluatedProperties": st.just(False),  # noqa: FBT003
        "$ref": st.just("#/$defs/c"),
        "$defs": st.fixed_dictionaries({"c": schemas}),
    },
).filter(lambda schema: "$ref" not in schema or "$defs" in schema)


def _both(one: dict[str, object], other: dict[str, object]) -> dict[str, object]:
    return one | other


@given(st.builds(_both, schemas, parts), documents)
@settings(max_examples=80, deadline=None)
def test_the_verdict_is_that_of_jsonschema(
    schema: dict[str, object], document: object
) -> None:
    theirs = jsonschema.Draft202012Validator(schema).is_valid(document)

    ours, _ = _matched(read_schema(json.dumps(schema)), json.dumps(document))

    assert ours == theirs
