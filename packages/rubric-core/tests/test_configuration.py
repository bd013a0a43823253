from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticKnownError

from rubric_core import ConfigError
from rubric_core.configuration import (
    Keys,
    config_error,
    kind_remedy,
    may_be_key,
    nearest_key,
    shown_name,
)
from rubric_core.needs import NEEDS


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Lexical(Strict):
    type: Literal["lexical"] = "lexical"
    stem_words: bool = True


class Language(Strict):
    type: Literal["llm"] = "llm"
    model: str = "m"
    temperature: float = Field(default=0.1, ge=0)


class ByPath(Strict):
    type: Literal["path"] = "path"
    path: str = "p"


class ByName(Strict):
    type: Literal["name"] = "name"
    name: str = "n"


class Optimiser(Strict):
    learning_rate: float = Field(default=3e-7, gt=0)
    warmup_steps: int = 13


class Service(Strict):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
    name: str = "n"
    calls: int = Field(default=1, ge=1)


class Train(Strict):
    group_size: int = Field(default=32, ge=2)
    optim: Optimiser = Optimiser()
    stages: list[Optimiser] = []
    warm: Optimiser | None = None
    judge: Annotated[Lexical | Language, Field(discriminator="type")] = Lexical()
    service: Service = Service()
    policy: Annotated[ByPath | ByName, Field(discriminator="type")] = ByPath()


class Hidden(Train):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def refused(values: Any, model: type[BaseModel] = Train) -> ConfigError:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(values)
    return config_error(caught.value, model=model, source="run.yaml")


@pytest.mark.parametrize(
    ("values", "location", "nearest"),
    [
        ({"group_sise": 8}, "group_sise", "group_size"),
        ({"optim": {"learning_rat": 1}}, "optim.learning_rat", "learning_rate"),
        ({"stages": [{}, {"warmup": 1}]}, "stages.1.warmup", "warmup_steps"),
        ({"warm": {"warm_steps": 1}}, "warm.warm_steps", "warmup_steps"),
        ({"judge": {"type": "llm", "modle": "x"}}, "judge.modle", "model"),
        (
            {"judge": {"type": "lexical", "stem_word": 1}},
            "judge.stem_word",
            "stem_words",
        ),
        ({"policy": {"type": "path", "paht": "x"}}, "policy.paht", "path"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_right_one(
    values: dict[str, Any], location: str, nearest: str
) -> None:
    error = refused(values)

    assert error.location == location
    assert (
        str(error) == f"run.yaml: unknown key {location!r}: did you mean {nearest!r}?"
    )


def test_a_choice_without_its_type_lists_the_types() -> None:
    error = refused({"judge": {"stem_words": True}})

    assert error.location == "judge"
    assert str(error) == "run.yaml: judge: type is missing: use one of 'lexical', 'llm'"
    close = refused({"judge": {"typ": "lexical"}})
    assert str(close).endswith(
        "type is missing: did you mean 'type' by 'typ'? use one of 'lexical', 'llm'"
    )


def test_a_key_near_to_none_lists_the_keys_of_its_level() -> None:
    error = refused({"judge": {"type": "llm", "zzz": 1}})

    assert str(error).endswith("known keys: model, temperature, type")


def test_a_wrong_value_is_named_and_shown() -> None:
    error = refused({"group_size": 1})

    assert str(error) == ("run.yaml: group_size: must be 2 or more, not 1")


def test_every_problem_has_a_line_and_the_first_the_location() -> None:
    error = refused({"group_size": "many", "optim": {"learning_rate": -1, "lr": 1}})

    assert error.location == "group_size"
    assert [line.split(": ")[1] for line in str(error).splitlines()] == [
        "group_size",
        "optim.learning_rate",
        "unknown key 'optim.lr'",
    ]


def test_a_missing_key_shows_no_value() -> None:
    class Needs(Strict):
        path: str

    assert str(refused({}, Needs)) == "run.yaml: path: is missing: add it"


def test_a_long_value_is_not_shown() -> None:
    assert "xxx" not in str(refused({"group_size": "x" * 200}))


def test_a_model_that_hides_its_input_keeps_it_hidden() -> None:
    assert "secret" not in str(refused({"group_size": "my secret"}, Hidden))
    assert "5ecret" not in str(refused({"group_size": "5ecret"}, Hidden))


def test_a_word_that_is_too_short_for_a_key_is_shown_even_where_values_are_hidden() -> (
    None
):
    assert str(refused({"service": {"calls": "many"}})) == (
        "run.yaml: service.calls: needs a whole number, not 'many' (its default is 1)"
    )
    assert "abcdefghijklm" not in str(refused({"service": {"calls": "abcdefghijklm"}}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"service": {"name": ["sk-live-1"]}}, "service.name: needs a text"),
        ({"service": {"calls": "sk-live-1"}}, "service.calls: needs a whole number"),
        ({None: 1}, "null: a key is a text: name it"),
        ({"service": "sk-live-1"}, "service: needs a mapping of keys to values"),
        ({"service": {"calls": 0}}, "service.calls: must be 1 or more"),
    ],
)
def test_a_part_that_hides_its_input_keeps_it_hidden(
    values: dict[str, Any], message: str
) -> None:
    assert message in str(refused(values))
    assert "sk-live" not in str(refused(values))


def test_a_hidden_part_shows_numbers_and_a_mapping_is_never_shown() -> None:
    assert str(refused({"service": {"calls": 0}})).endswith(", not 0")
    assert "sk-live" not in str(
        refused({"optim": {"learning_rate": {"key": "sk-live-1"}}})
    )


@pytest.mark.parametrize(
    "values",
    [
        {"sk-live-1": 1},
        {"service": {"sk_proj_abc": 1}},
        {"judge": {"type": "sk-live-1"}},
        {"judge": {"type": "llm", "a9B8c7D6e5F4a3B2c1D0": 1}},
    ],
)
def test_a_name_that_may_be_a_key_is_not_repeated(values: dict[str, Any]) -> None:
    message = str(refused(values))
    assert not any(text in message for text in ("sk-live", "sk_proj", "a9B8"))
    assert ("(unshown: maybe a secret)" in message) == ("…" in refused(values).location)
    assert str(refused(values).location) in {"…", "service.…", "judge", "judge.…"}


@pytest.mark.parametrize(
    "values",
    [
        {"group_size": "sk-live-abc123"},
        {"optim": "sk-live-abc123"},
        {"stages": ["sk-live-abc123"]},
        {"optim": {"learning_rate": ["hf_sk-live-abc123"]}},
        "sk-live-abc123",
        {"judge": "sk-live-abc123"},
        {"group_size": -123456789012345},
        {"service": {"calls": -(10**5000)}},
    ],
)
def test_a_value_that_may_be_a_key_is_not_repeated_wherever_it_stands(
    values: Any,
) -> None:
    message = str(refused(values))
    assert "sk-live" not in message
    assert "12345" not in message
    assert "00000" not in message


def test_a_key_in_a_field_of_the_wrong_kind_is_said_to_be_one() -> None:
    assert str(refused({"group_size": "sk-live-1"})) == (
        "run.yaml: group_size: needs a whole number (unshown: maybe a secret) (its default is 32)"
    )


def test_a_check_of_a_models_own_repeats_no_key() -> None:
    class Named(Strict):
        name: str

        @field_validator("name")
        @classmethod
        def _known(cls, value: str) -> str:
            raise ValueError(f"no name: {value!r}")

    assert "no name: '…'" in str(refused({"name": "sk-live-1"}, Named))
    assert "no name: 'plain'" in str(refused({"name": "plain"}, Named))


def test_a_list_with_a_wrong_item_is_not_said_to_be_too_short() -> None:
    class Kinds(Strict):
        kinds: tuple[Literal["open", "code"], ...] = Field(min_length=1)

    assert str(refused({"kinds": ["opn"]}, Kinds)) == (
        "run.yaml: kinds.0: needs 'open' or 'code', not 'opn': did you mean 'open'?"
    )
    assert "must have 1 or more items" in str(refused({"kinds": []}, Kinds))


class Many(Strict):
    rate: float = Field(default=0.5, gt=0, lt=1)
    steps: int = Field(default=3, le=10)
    on: bool = False
    words: list[str] = Field(default=[], max_length=1)
    name: str = Field(default="n", min_length=2, max_length=3)
    code: str = Field(default="a", pattern="^[a-z]$")
    finite: float = Field(default=1, allow_inf_nan=False)
    kind: Literal["open", "code"] = "open"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    options: dict[str, int] = {}
    place: Path | None = None


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"rate": "high"}, "rate: needs a number, not 'high' (its default is 0.5)"),
        ({"rate": None}, "rate: needs a number, not null"),
        ({"rate": 0}, "rate: must be above 0, not 0"),
        ({"rate": 1.5}, "rate: must be below 1, not 1.5"),
        ({"steps": 1.5}, "steps: needs a whole number, not 1.5"),
        ({"steps": "two"}, "steps: needs a whole number, not 'two' (its default is 3)"),
        ({"steps": 11}, "steps: must be 10 or less, not 11"),
        (
            {"on": "perhaps"},
            "on: needs `true` or `false`, not 'perhaps' (its default is false)",
        ),
        ({"on": 5}, "on: needs `true` or `false`, not 5 (its default is false)"),
        ({"words": "a"}, "words: needs a list, such as [a, b], not 'a'"),
        ({"words": ["a", "b"]}, "words: must have 1 or fewer items"),
        (
            {"name": 5},
            "name: needs a text, in quotes where it looks like a number, not 5",
        ),
        (
            {"name": True},
            "name: needs a text, in quotes where it looks like a number, not true",
        ),
        ({"name": "n"}, "name: must have 2 or more characters, not 'n'"),
        ({"name": "long"}, "name: must have 3 or fewer characters, not 'long'"),
        ({"code": "1"}, "code: does not fit the pattern ^[a-z]$, not '1'"),
        ({"finite": float("inf")}, "finite: needs a finite number, not inf"),
        (
            {"kind": "cod"},
            "kind: needs 'open' or 'code', not 'cod': did you mean 'code'?",
        ),
        (
            {"device": "gpu"},
            "device: needs 'auto', 'cpu' or 'cuda', not 'gpu': did you mean 'cuda'?",
        ),
        ({"kind": 3}, "kind: needs 'open' or 'code', not 3"),
        ({"options": []}, "options: needs a mapping of keys to values"),
        ({"place": 5}, "place: needs a path, not 5"),
    ],
)
def test_each_kind_of_wrong_value_is_told_in_our_words(
    values: dict[str, Any], told: str
) -> None:
    assert str(refused(values, Many)) == f"run.yaml: {told}"


def test_a_missing_key_is_shown_with_the_example_of_its_field() -> None:
    class Needs(Strict):
        model: str = Field(examples=["openai/gpt-4.1-mini"])

    assert str(refused({}, Needs)).endswith(
        "model: is missing: add it, such as `model: openai/gpt-4.1-mini`"
    )


def test_each_problem_says_its_own_place_where_the_source_knows_it() -> None:
    with pytest.raises(ValidationError) as caught:
        Train.model_validate(
            {"stages": [{}, {"lr": 1}], "judge": {"type": "llm", "temperature": -1}}
        )
    lines: dict[Keys, int] = {("stages", 1, "lr"): 7, ("judge", "temperature"): 9}
    error = config_error(
        caught.value, model=Train, source=lambda keys: f"run.yaml:{lines[keys]}"
    )

    assert [line.split(" ")[0] for line in str(error).splitlines()] == [
        "run.yaml:7:",
        "run.yaml:9:",
    ]


@pytest.mark.parametrize(
    ("given", "kinds", "told"),
    [
        (
            "openai",
            ("lexical", "llm"),
            "`type: llm`, with `model: openai/NAME` below it",
        ),
        (
            "vLLM",
            ("lexical", "llm"),
            "`type: llm`, with `model: hosted_vllm/NAME` below it",
        ),
        ("openai", ("lexical",), "use one of lexical"),
        (
            "lexcal",
            ("lexical", "llm"),
            "did you mean 'lexical'? use one of lexical, llm",
        ),
    ],
)
def test_a_provider_given_as_a_kind_is_told_where_it_stands(
    given: str, kinds: tuple[str, ...], told: str
) -> None:
    assert kind_remedy(given, kinds).endswith(told)


@pytest.mark.parametrize(
    "name", ["max_tokens", "group-size", "top_k2", "*", "KEY_2024", "a/gpt-4.1:0"]
)
def test_a_plain_name_is_shown(name: str) -> None:
    assert shown_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "sk-live-1",
        "my-sk-live-1",
        "sk_proj_abc",
        "hf_abcdefghij",
        "0123456789abcdef0123456789abcdef",
        "deadbeef0123deadbeef",
        "3b9c7f2e-4d1a-4c6b-9e8f-2a7d5c1b0e43",
        "AKIAIOSFODNN7EXAMPLE",
        "a: b",
        "x" * 41,
        1234567890123,
        None,
        1.5,
    ],
)
def test_what_may_be_a_key_or_is_no_name_is_not_shown(name: object) -> None:
    assert shown_name(name) == "…"


def test_a_location_has_keys_of_the_file_only() -> None:
    class Places(Strict):
        place: str | tuple[str, ...] = ()

    assert "place.1: needs a text" in str(refused({"place": ["a", 5]}, Places))


def test_a_word_is_no_key() -> None:
    assert not may_be_key("hosted_vllm/openai/gpt-oss-20b")


def test_a_problem_of_the_whole_has_no_place() -> None:
    with pytest.raises(ValidationError) as caught:
        Train.model_validate("text")

    error = config_error(caught.value, model=Train, source="run.yaml")
    assert str(error).startswith("run.yaml: needs a mapping of keys to values")
    assert error.location == ""


def test_an_unknown_tag_is_named() -> None:
    assert "judge" in str(refused({"judge": {"type": "oracle"}}))
    assert str(refused({"judge": {"type": "oracle"}})) == (
        "run.yaml: judge: there is no type 'oracle': use one of lexical, llm"
    )
    assert "sk-live" not in str(refused({"judge": {"type": "sk-live-abc123"}}))


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("lerning_rate", "learning_rate"), ("retries", None), ("zzz", None), ("", None)],
)
def test_the_nearest_key_is_one_letter_away_or_none(
    key: str, nearest: str | None
) -> None:
    assert nearest_key(key, ["warmup_steps", "learning_rate", "prices"]) == nearest


def test_a_long_text_is_looked_through_once() -> None:
    letters = "a" * 2**20  # by every letter of it once more, this would take hours
    assert not may_be_key(letters)
    assert may_be_key(letters + "1")


def test_a_collection_is_never_written_out() -> None:
    doubled: list[Any] = ["x"]
    for _ in range(60):
        doubled = [doubled, doubled]
    message = str(refused({"group_size": doubled, "optim": doubled}))
    assert [line.split(": ")[1] for line in message.splitlines()] == [
        "group_size",
        "optim",
    ]


_CONTEXT = {
    "class_name": "C",
    "error": "e",
    "expected": "x",
    "field_type": "List",
    "pattern": "p",
    **dict.fromkeys(("ge", "gt", "le", "lt", "actual_length"), 3),
    **dict.fromkeys(("max_length", "min_length"), 2),
}


def _slots(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


@pytest.mark.parametrize("kind", sorted(NEEDS.keys() - {"path_type"}))
def test_a_need_fills_in_what_pydantic_says_of_such_an_error(kind: Any) -> None:
    words = PydanticKnownError(kind, _CONTEXT).message_template

    assert _slots(NEEDS[kind]) <= _slots(words)
