from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rubric_core import ConfigError
from rubric_core.configuration import config_error, nearest_key


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


class Train(Strict):
    group_size: int = Field(default=32, ge=2)
    optim: Optimiser = Optimiser()
    stages: list[Optimiser] = []
    warm: Optimiser | None = None
    judge: Annotated[Lexical | Language, Field(discriminator="type")] = Lexical()
    policy: Annotated[ByPath | ByName, Field(discriminator="type")] = ByPath()


class Hidden(Train):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def refused(values: dict[str, Any], model: type[BaseModel] = Train) -> ConfigError:
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
        ({"judge": {"type": "llm", "modle": "x"}}, "judge.llm.modle", "model"),
        ({"judge": {"type": "lexical", "stem_word": 1}}, "judge.lexical.stem_word", "stem_words"),
        ({"policy": {"type": "path", "paht": "x"}}, "policy.path.paht", "path"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_right_one(
    values: dict[str, Any], location: str, nearest: str
) -> None:
    error = refused(values)

    assert error.location == location
    assert str(error) == f"run.yaml: unknown key {location!r}: did you mean {nearest!r}?"


def test_a_key_near_to_none_lists_the_keys_of_its_level() -> None:
    error = refused({"judge": {"type": "llm", "zzz": 1}})

    assert str(error).endswith("known keys: model, temperature, type")


def test_a_wrong_value_is_named_and_shown() -> None:
    error = refused({"group_size": 1})

    assert str(error) == ("run.yaml: group_size: Input should be greater than or equal to 2, not 1")


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

    assert str(refused({}, Needs)) == "run.yaml: path: Field required"


def test_a_long_value_is_not_shown() -> None:
    assert "xxx" not in str(refused({"group_size": "x" * 200}))


def test_a_model_that_hides_its_input_keeps_it_hidden() -> None:
    assert "secret" not in str(refused({"group_size": "secret"}, Hidden))


def test_a_problem_of_the_whole_has_no_place() -> None:
    with pytest.raises(ValidationError) as caught:
        Train.model_validate("text")

    error = config_error(caught.value, model=Train, source="run.yaml")
    assert str(error).startswith("run.yaml: Input should be a valid dictionary")
    assert error.location == ""


def test_an_unknown_tag_is_named() -> None:
    assert "judge" in str(refused({"judge": {"type": "oracle"}}))


@pytest.mark.parametrize(
    ("key", "nearest"), [("lerning_rate", "learning_rate"), ("zzz", None), ("", None)]
)
def test_the_nearest_key_is_one_letter_away_or_none(key: str, nearest: str | None) -> None:
    assert nearest_key(key, ["warmup_steps", "learning_rate"]) == nearest
