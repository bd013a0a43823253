import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from rubric_core import ConfigError, Decoding
from rubric_core.reward.estimators import GroupAdvantages
from rubric_train_openrlhf.config.sections import PathModel
from rubric_train_openrlhf.config.train import (
    TrainConfig,
    dump_config,
    load_config,
    parse_config,
)
from rubric_train_openrlhf.errors import TrainConfigError

PRESETS = Path(__file__).parents[4] / "configs" / "train"

SMALL: dict[str, Any] = {
    "model": {"type": "path", "path": "m"},
    "data": {"train": "t.jsonl"},
    "steps": 3,
    "out": "runs/x",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(SMALL))
    return path


@pytest.mark.parametrize(
    "path", sorted(PRESETS.glob("*.yaml")), ids=lambda path: path.stem
)
def test_every_preset_parses(path: Path) -> None:
    assert load_config(path).steps > 0


def test_the_two_presets_of_the_main_run_differ_in_machines_alone() -> None:
    one, many = (
        load_config(PRESETS / name)
        for name in ("paper.yaml", "paper_llama31_8b_8gpu.yaml")
    )
    for section in (
        "advantage",
        "objective",
        "shaping",
        "dynamic_sampling",
        "validation",
        "steps",
    ):
        assert getattr(one, section) == getattr(many, section), section
    ours = {"transport", "api_base", "model"}  # where its servers are
    specs = [c.judge.spec.model_dump(mode="json", exclude=ours) for c in (one, many)]
    assert specs[0] == specs[1]
    assert one.judge.model_copy(update={"spec": many.judge.spec}) == many.judge
    assert (
        one.optim.model_copy(update={"micro_batch": many.optim.micro_batch})
        == many.optim
    )


def test_the_paper_preset_is_the_papers_main_run() -> None:
    config = load_config(PRESETS / "paper.yaml")

    assert (config.rollout.prompts, config.rollout.group_size) == (64, 32)
    assert config.batch_size == 2048
    assert config.batch_size // config.optim.updates_per_rollout == 2048
    assert config.optim.learning_rate == 3e-7
    assert config.optim.weight_decay == 0.01
    assert config.optim.max_grad_norm == 1.0
    assert (config.optim.warmup_steps, config.optim.warmup_start_frac) == (13, 0.1)
    assert (config.optim.betas, config.optim.eps) == ((0.9, 0.999), 1e-8)
    assert (config.objective.clip_low, config.objective.clip_high) == (0.2, 0.2)
    assert (config.objective.kl_coef, config.objective.kl_input_clamp) == (0.01, 20.0)
    assert config.objective.kl_output_clamp is None
    assert config.objective.dual_clip is None
    assert config.objective.importance.type == "none"
    assert config.advantage == GroupAdvantages(std="sample", delta=1e-8)
    assert (config.judge.workers, config.judge.micro_batch) == (32, 4)
    spec = config.judge.spec
    assert spec.type == "llm"
    assert (spec.temperature, spec.max_tokens, spec.passage_chars) == (
        0.1,
        16_000,
        50_000,
    )
    assert config.dynamic_sampling is None
    assert not config.shaping.enabled


def test_the_defaults_are_the_paper_preset(file: Path) -> None:
    defaults, paper = load_config(file), load_config(PRESETS / "paper.yaml")

    for name in ("objective", "advantage", "dynamic_sampling", "shaping"):
        assert getattr(defaults, name) == getattr(paper, name)
    for name in ("prompts", "group_size", "temperature", "max_new_tokens"):
        assert getattr(defaults.rollout, name) == getattr(paper.rollout, name)
    memory = {"micro_batch": 1, "gradient_checkpointing": False}
    assert defaults.optim.model_copy(update=memory) == paper.optim.model_copy(
        update=memory
    )


@pytest.mark.parametrize("name", ["paper", "paper_llama31_8b_8gpu"])
def test_the_checkpoint_is_selected_as_table_1_is_decoded(name: str) -> None:
    """By what `rubric-eval heldout` does when it is told nothing."""
    config, table = load_config(PRESETS / f"{name}.yaml"), Decoding()

    assert config.validation.temperature == table.temperature == 0.0
    assert config.rollout.max_new_tokens == table.max_tokens


def test_a_dumped_configuration_reads_back_the_same(tmp_path: Path) -> None:
    for preset in PRESETS.glob("*.yaml"):
        config = load_config(preset)
        copy = tmp_path / preset.name
        copy.write_text(dump_config(config))
        assert load_config(copy) == config


def test_overrides_replace_values_and_make_sections(file: Path) -> None:
    config = load_config(
        file,
        overrides=(
            "--rollout.prompts",
            "8",
            "--rollout.group-size=4",
            "--optim.learning_rate",
            "1e-5",
            "--dynamic_sampling.max_resample_rounds",
            "3",
            "--model",
            "{type: path, path: other}",
            "--sft",
            "null",
        ),
    )

    assert (config.rollout.prompts, config.rollout.group_size) == (8, 4)
    assert config.optim.learning_rate == 1e-5
    assert config.dynamic_sampling is not None
    assert config.dynamic_sampling.max_resample_rounds == 3
    assert config.model == PathModel(path=Path("other"))


@pytest.mark.parametrize(
    "text",
    ["runs/a #1", "2026", "runs/x: y", "[", "2001-99-99", "1e3", "a\\0b", "- b", "no"],
)
def test_a_path_on_the_command_line_is_taken_as_it_is(file: Path, text: str) -> None:
    for overrides in (("--out", text), (f"--out={text}",)):
        assert load_config(file, overrides=overrides).out == Path(text)
    assert load_config(
        file, overrides=("--data.validation", text)
    ).data.validation == Path(text)
    address = load_config(
        file, overrides=("--cluster.ray.address", text)
    ).cluster.ray.address
    assert address == text


def test_what_is_quoted_or_left_out_on_the_command_line_is_yaml(file: Path) -> None:
    config = load_config(
        file, overrides=("--out", "'runs/a #1'", "--data.validation", "null")
    )
    assert config.out == Path("runs/a #1")
    assert config.data.validation is None


def test_a_path_may_begin_at_home(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (
        load_config(file, overrides=("--out=~/runs/x",)).out == tmp_path / "runs" / "x"
    )
    home = parse_config(
        {**SMALL, "data": {"train": "~/t.jsonl", "validation": "~nobody-here/v"}}
    )
    assert home.data.train == tmp_path / "t.jsonl"
    assert home.data.validation == Path("~nobody-here/v")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ("--rollout.group_sise", "4"),
            r"'rollout\.group_sise': did you mean 'group_size'\?",
        ),
        (("--optin.lr", "1"), r"'optin': did you mean 'optim'\?"),
        (
            ("--objective.importance", "{type: tis, capp: 1}"),
            r"capp': did you mean 'cap'\?",
        ),
        (("--rollout.group_size", "1"), r"rollout\.group_size=1: .* use at least 2"),
        (
            (
                "--rollout.prompts",
                "3",
                "--rollout.group_size",
                "3",
                "--optim.updates_per_rollout",
                "4",
            ),
            r"group_size=9 is not divisible by optim\.updates_per_rollout=4",
        ),
        (("--steps", "0"), r"the command line: steps: must be 1 or more, not 0"),
        (
            ("--steps", "many"),
            r"the command line: steps: needs a whole number, not .many.",
        ),
        (
            ("--rollout.temperature", "0"),
            r"rollout\.temperature: must be 0\.001 or more",
        ),
        (
            ("--rollout.temperature", "1.0e-300"),
            r"rollout\.temperature: must be 0\.001 or more",
        ),
        (("--rollout.temperature", ".inf"), r"rollout\.temperature: .*finite"),
        (
            ("--validation.temperature", "1.0e-300"),
            r"validation\.temperature=1e-300 must be 0",
        ),
        (("--advantage.delta", ".inf"), r"advantage\.delta: .*finite"),
        (
            ("--objective.kl_coef", ".inf"),
            r"objective\.kl_coef=inf must be a finite number",
        ),
        (("--sft", "{learning_rate: .nan}"), r"sft\.learning_rate: .*finite"),
        (
            ("--sft", "{steps: 10}"),
            r"sft\.learning_rate is not set, and its default, 0\.002, is for",
        ),
        (
            ("--validation.samples", "4"),
            r"samples=4 at validation\.temperature=0 would be the same",
        ),
        (("--rollout.group_size", "1000000000000"), r"rollout\.group_size: .*65536"),
        (("--seed", str(10**100)), r"seed: "),
        (("--out", '"a\\0b"'), r"out=.*null character"),
        (("--seed", "2001-99-99"), r"--seed:1:1: this is no date"),
        (("--out", "runs/\udcff"), r"--out is not UTF-8"),
        (("--out", ""), r"out: .*path"),
        (
            ("--judge.spec.type", "lexicl"),
            r"judge\.spec: there is no type 'lexicl': did you mean 'lexical'\?",
        ),
        (
            ("--shaping.length_penalty.buffer_tokens", "4096"),
            r"buffer_tokens=4096 must be less than rollout\.max_new_tokens=3072",
        ),
        (
            ("--shaping.alpha_stop", "0.5", "--advantage.estimator", "decoupled"),
            r"advantage\.estimator='decoupled'",
        ),
        (
            ("--judge.spec", "{type: listwise, model: m, max_group: 8}"),
            r"32 responses to a prompt .* are over judge\.spec\.max_group=8",
        ),
        (("--model", "{type: pathh, path: x}"), "model: .*'path'"),
        (
            ("--model", "{path: a, path: b}"),
            "--model:1:11: the key 'path' stands here a second",
        ),
        (("--steps",), "--steps needs a value"),
        (("steps", "3"), "'steps' is not an override"),
        (("--steps", "["), r"--steps:1:2: is not YAML"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_value_says_where_and_what_to_do(
    file: Path, overrides: tuple[str, ...], message: str
) -> None:
    with pytest.raises(TrainConfigError, match=message):
        load_config(file, overrides=overrides)


def test_a_wrong_value_is_told_with_its_line_or_as_one_of_the_command_line(
    file: Path,
) -> None:
    text = file.read_text()
    file.write_text(f"{text}\nobjective:\n  clip: low\n")
    line = len(text.splitlines()) + 3

    with pytest.raises(TrainConfigError) as caught:
        load_config(
            file, overrides=("--rollout.temperature", "high", "--sft", "{stepz: 1}")
        )

    said = str(caught.value).splitlines()
    assert any(one.startswith(f"{file}:{line}: ") for one in said)
    assert any(
        one.startswith("the command line: rollout.temperature: needs a num")
        for one in said
    )
    assert any(
        one.startswith("the command line: unknown key 'sft.stepz'") for one in said
    )


def test_what_sections_require_of_each_other_is_told_by_the_line_of_each(
    file: Path,
) -> None:
    text = file.read_text()
    file.write_text(
        f"{text}\nrollout:\n  prompts: 2\n  group_size: 1\ndevice: cuda\nbackend: openrlhf\n"
    )
    lines = file.read_text().splitlines()

    with pytest.raises(TrainConfigError) as caught:
        load_config(file, overrides=("--cluster.device", "cpu"))

    said = str(caught.value).splitlines()
    for key in ("  group_size: 1", "device: cuda"):
        start = f"{file}:{lines.index(key) + 1}: "
        assert any(one.startswith(start) for one in said), said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps: [", "is not YAML"),
        ("steps: 1\nsteps: 2", "yaml:2:1: the key 'steps' stands here a second time"),
        (
            "judge: {type: lexical, type: llm}",
            "yaml:1:24: the key 'type' stands here a second",
        ),
        ("- 1", "holds no mapping"),
        ("# nothing", "holds no mapping"),
        ("steps: 3", r"model: is missing"),
    ],
)
def test_a_file_that_is_no_configuration_is_named(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text)

    with pytest.raises(TrainConfigError, match=message) as caught:
        load_config(path)

    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"steps: 3 # \xff", r"cannot be read: it is not UTF-8"),
        (b"[" * 5000, r"is not YAML; it nests too deep"),
        (b"seed: 2001-99-99", r"this is no date"),
    ],
    ids=["not UTF-8", "deep", "no such day"],
)
def test_a_file_that_cannot_be_parsed_is_named(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes(content)

    with pytest.raises(TrainConfigError, match=rf"run\.yaml.*{message}"):
        load_config(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrainConfigError, match=r"absent\.yaml.*No such file"):
        load_config(tmp_path / "absent.yaml")


def test_a_configuration_error_is_a_value_error_with_its_location() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({**SMALL, "stepps": 1})

    copy = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(caught.value, ValueError)
    assert (str(copy), copy.location) == (str(caught.value), "stepps")


def test_a_configuration_cannot_be_changed(file: Path) -> None:
    config = load_config(file)

    with pytest.raises(ValidationError, match="frozen"):
        config.steps = 4  # pyright: ignore[reportAttributeAccessIssue]  # the point


def test_every_field_says_what_it_is() -> None:
    undocumented: list[str] = []

    def walk(model: type[Any], path: str) -> None:
        for name, field in model.model_fields.items():
            if name != "type" and not field.description:
                undocumented.append(f"{path}{name}")
            if hasattr(field.annotation, "model_fields"):
                walk(field.annotation, f"{path}{name}.")

    walk(TrainConfig, "")
    assert undocumented == []
