from pathlib import Path

import pytest

from rubric_core import ConfigError
from rubric_synth import QualityConfig, SynthConfig, load_config
from rubric_synth.config import KNOWN_LANGUAGES
from rubric_synth.sources.raw_text import _identifier

_SHIPPED = Path(__file__).parents[3] / "configs" / "synth"


@pytest.mark.parametrize(
    "path", sorted(_SHIPPED.glob("*.yaml")), ids=lambda path: path.name
)
def test_every_shipped_configuration_is_read(path: Path) -> None:
    load_config(path)


def test_the_extractive_configuration_writes_out_the_defaults() -> None:
    assert load_config(_SHIPPED / "extractive.yaml") == SynthConfig()


def _refused(tmp_path: Path, text: str) -> str:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    return str(caught.value)


def test_an_unknown_key_is_named_with_the_nearest_right_one(tmp_path: Path) -> None:
    message = _refused(tmp_path, "quality:\n  min_criterias: 4\n")
    assert "quality.min_criterias" in message
    assert "'min_criteria'" in message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("train_frac: 0.9\nvalidation_frac: 0.2\n", "test split"),
        ("quality: {min_criteria: 9, max_criteria: 5}", "max_criteria 5"),
        ("max_concurrency: 0", "max_concurrency"),
        ("- a list", "c.yaml"),
        ("a: [", "c.yaml:1:5: is not YAML"),
        (
            "train_frac: 0.5\ntrain_frac: 0.6",
            "c.yaml:2:1: the key 'train_frac' stands here a second",
        ),
        ("train_frac: .nan", "train_frac"),
    ],
)
def test_wrong_values_are_refused(tmp_path: Path, text: str, part: str) -> None:
    assert part in _refused(tmp_path, text)


def test_unknown_languages_are_named_with_the_known_ones(tmp_path: Path) -> None:
    message = _refused(tmp_path, 'collect: {languages: [en, xx, "", english]}')
    assert "'xx', '', 'english'" in message
    assert "cs, cy, da, de" in message
    assert (
        load_config(_written(tmp_path, "collect: {languages: []}")).collect.languages
        == ()
    )


def test_the_known_languages_are_those_of_the_library() -> None:
    assert set(_identifier().labels) - {"zxx"} == KNOWN_LANGUAGES


def _written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    return path


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml"):
        load_config(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "collect: {min_document_words: KEY}",
        "engine: KEY",
        "collect: {fields: {id: KEY}}",
        "collect: {languages: [[KEY]]}",
        "KEY",
        "- KEY",
        "synthesiser: KEY",
        "synthesiser: {type: KEY}",
        "ray: {address: [KEY]}",
        "quality: {corruptions: [KEY], judge: {type: llm, model: [KEY]}}",
        "KEY: 1",
    ],
)
def test_a_key_in_a_wrong_place_is_in_no_message(tmp_path: Path, text: str) -> None:
    message = _refused(tmp_path, text.replace("KEY", "sk-abcDEF123456"))
    assert "abcDEF" not in message


def test_a_wrong_task_type_is_answered_with_the_right_ones(tmp_path: Path) -> None:
    message = _refused(
        tmp_path,
        "synthesiser: {type: llm, model: {model: m}, task_types: [quantitativ]}",
    )
    assert message.endswith(
        "c.yaml:1: synthesiser.task_types.0: needs 'open', 'quantitative' or 'code', not "
        "'quantitativ': did you mean 'quantitative'?"
    )


def test_a_synthesiser_that_lacks_its_model_is_told_what_to_add(tmp_path: Path) -> None:
    message = _refused(tmp_path, "collect: {}\nsynthesiser:\n  type: llm\n")
    assert message.endswith(
        "c.yaml:2: synthesiser.model: is missing: add it, such as "
        "`model: {model: openai/gpt-4.1-mini}`"
    )


def test_a_provider_is_told_to_stand_in_the_name_of_a_model(tmp_path: Path) -> None:
    message = _refused(tmp_path, "synthesiser: {type: openai}")
    assert message.endswith("`type: llm`, with `model: {model: openai/NAME}` below it")
    message = _refused(tmp_path, "quality: {judge: {type: openai}}")
    assert message.endswith("`type: llm`, with `model: openai/NAME` below it")


def test_a_location_holds_the_keys_of_the_file_alone(tmp_path: Path) -> None:
    model = "{model: m, api_base: nowhere}"
    message = _refused(tmp_path, f"synthesiser: {{type: llm, model: {model}}}")
    assert "synthesiser.model.api_base: an address" in message


_BY_A_MODEL = "synthesiser: {type: llm, model: {model: openai/gpt-4.1-mini}}\n"


@pytest.mark.parametrize(
    ("text", "fewest"),
    [
        ("", 3),
        ("quality: {max_criteria: 4}", 3),
        ("synthesiser: {type: extractive}", 3),
        ("quality: {min_criteria: 5}", 5),
        ("quality: {min_criteria: 2}", 2),
        (_BY_A_MODEL, 5),
        (f"{_BY_A_MODEL}quality: {{leak_words: 9}}", 5),
        (f"{_BY_A_MODEL}quality: {{min_criteria: 3}}", 3),
    ],
)
def test_rules_may_write_fewer_criteria_than_a_model_unless_a_file_says_how_many(
    tmp_path: Path, text: str, fewest: int
) -> None:
    config = load_config(_written(tmp_path, text))
    assert config.quality.min_criteria == fewest
    assert SynthConfig.model_validate(config.model_dump(mode="json")) == config
    assert SynthConfig.model_validate_json(config.model_dump_json()) == config


def test_checks_that_are_made_beforehand_keep_their_fewest_criteria() -> None:
    assert SynthConfig().quality.min_criteria == 3
    assert SynthConfig(quality=QualityConfig()).quality.min_criteria == 5
    assert SynthConfig(quality=QualityConfig(min_criteria=4)).quality.min_criteria == 4


def test_a_synthesiser_made_beforehand_decides_how_few_criteria_there_are(
    tmp_path: Path,
) -> None:
    by_a_model = load_config(_written(tmp_path, _BY_A_MODEL)).synthesiser
    assert SynthConfig(synthesiser=by_a_model).quality.min_criteria == 5
    assert SynthConfig(synthesiser=SynthConfig().synthesiser).quality.min_criteria == 3
