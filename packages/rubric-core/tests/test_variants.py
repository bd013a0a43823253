from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from rubric_core import ConfigError, PluginError, config_error
from rubric_core.plugins.variants import find_variant
from rubric_core.reward.estimators import (
    AdvantageConfig,
    AdvantageEstimator,
    GroupAdvantages,
)

Install = Callable[[str, str, dict[str, dict[str, str]]], Path]

MODULE = """
from pydantic import Field
from rubric_core.reward.estimators import AdvantageEstimator


class Median(AdvantageEstimator):
    estimator: str = "acme-median"
    scale: float = Field(default=1.0, gt=0)

    def advantages(self, groups):
        return groups.rewards_PG


class Nameless(AdvantageEstimator):
    def advantages(self, groups):
        return groups.rewards_PG


class Empty(AdvantageEstimator):
    estimator: str = "acme-empty"


NUMBER = 3
"""


UNKNOWN = (
    r"nothing called 'acme-medan' is installed under 'rubric.advantages'; did you mean "
    r"'acme-median'\? installed: acme-dict.*decoupled, group"
)


class Root(BaseModel):
    advantage: AdvantageConfig = GroupAdvantages()


def parsed(advantage: object) -> Any:
    return Root.model_validate({"advantage": advantage}).advantage


def refused(advantage: object) -> ConfigError:
    with pytest.raises(ValidationError) as caught:
        parsed(advantage)
    return config_error(caught.value, model=Root, source="run.yaml")


@pytest.fixture
def acme(install_plugin: Install) -> None:
    points = {
        "acme-median": "acme:Median",
        "acme-nameless": "acme:Nameless",
        "acme-empty": "acme:Empty",
        "acme-number": "acme:NUMBER",
        "acme-dict": "builtins:dict",
    }
    install_plugin("acme", MODULE, {"rubric.advantages": points})


@pytest.mark.usefixtures("acme")
def test_a_kind_of_another_package_is_parsed_with_its_own_keys_and_written_back_whole() -> (
    None
):
    config = parsed({"estimator": "acme-median", "scale": 2})

    assert type(config).__name__ == "Median"
    assert config.scale == 2.0
    assert Root(advantage=config).model_dump() == {
        "advantage": {"estimator": "acme-median", "scale": 2.0}
    }
    assert find_variant(AdvantageEstimator, "acme-median") is type(config)


def test_a_mapping_without_a_name_is_of_the_default_kind() -> None:
    assert parsed({"std": "none"}) == GroupAdvantages(std="none")
    assert parsed({}) == GroupAdvantages()


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("advantage", "location", "words"),
    [
        ({"estimator": "acme-medan"}, "advantage.estimator", UNKNOWN),
        ({"estimator": 3}, "advantage.estimator", r"name one of .*decoupled, group"),
        (
            {"estimator": "acme-median", "scal": 2},
            "advantage.scal",
            r"unknown key 'advantage.scal': did you mean 'scale'\?",
        ),
        (
            {"estimator": "acme-median", "zzzzzz": 2},
            "advantage.zzzzzz",
            r"known keys: estimator, scale$",
        ),
        (
            {"estimator": "acme-median", "scale": 0},
            "advantage.scale",
            "must be above 0, not 0",
        ),
        ({"delta": float("inf")}, "advantage.delta", "finite"),
        (
            {"estimator": "acme-nameless"},
            "advantage.estimator",
            "'estimator' is .*give it",
        ),
        (
            {"estimator": "acme-empty"},
            "advantage.estimator",
            "does not define advantages",
        ),
        (
            {"estimator": "acme-number"},
            "advantage.estimator",
            "is a int, not a subclass of",
        ),
        (
            {"estimator": "acme-dict"},
            "advantage.estimator",
            "is dict, not a subclass of",
        ),
        ([], "advantage", "needs a mapping of keys to values"),
    ],
)
def test_what_is_wrong_is_named_at_its_key(
    advantage: object, location: str, words: str
) -> None:
    error = refused(advantage)

    assert error.location == location
    with pytest.raises(ConfigError, match=words):
        raise error


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "raise ValueError('no licence\\nfor you')",
            r"does not load: ValueError: no licence$",
        ),
        ("import sys; sys.exit('bye')", "does not load: SystemExit: bye"),
        ("def f(:", "does not load: SyntaxError"),
        (
            "import not_there_at_all",
            "does not load: No module named 'not_there_at_all'",
        ),
    ],
)
def test_a_package_that_fails_when_it_is_imported_is_named(
    install_plugin: Install, text: str, words: str
) -> None:
    install_plugin(
        "broken", text, {"rubric.advantages": {"acme-broken": "broken:Broken"}}
    )

    with pytest.raises(PluginError, match=words):
        find_variant(AdvantageEstimator, "acme-broken")
    assert "acme-broken" in str(refused({"estimator": "acme-broken"}))


@pytest.mark.usefixtures("acme")
def test_one_name_in_two_packages_is_refused(install_plugin: Install) -> None:
    install_plugin("mine", MODULE, {"rubric.advantages": {"group": "mine:Median"}})

    with pytest.raises(
        PluginError, match=r"\(mine, rubric-core\): uninstall all but one"
    ):
        find_variant(AdvantageEstimator, "group")
