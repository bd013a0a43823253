import math
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import get_args

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from yarl import URL

from rubric_core import (
    ConfigError,
    Judge,
    JudgeView,
    PluginError,
    find_judge,
    judge_names,
)
from rubric_judge import (
    CascadeConfig,
    HybridConfig,
    JudgeConfig,
    JudgePool,
    JudgeSetupError,
    Ledger,
    LexicalConfig,
    LexicalJudge,
    LimitsConfig,
    LLMJudge,
    PluginConfig,
    Prices,
    SandboxConfig,
    judge_spec,
    load_judge,
    read_judge_spec,
)
from rubric_judge.models.settings import api_key
from rubric_judge.pool.step import Hedging
from rubric_judge.serve.config import ServeConfig

CONFIGS = Path(__file__).parents[3] / "configs" / "judge"


@pytest.mark.parametrize(
    "path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem
)
def test_every_configuration_in_the_repository_makes_a_judge(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "sk-test")
    spec = read_judge_spec(path)
    # A cascade is made once it is calibrated; its judges are made before.
    for one in spec.judges if isinstance(spec, CascadeConfig) else (spec,):
        if isinstance(one, HybridConfig) and one.python_tests:
            pytest.importorskip("rubric_sandbox")
        assert isinstance(load_judge(one), Judge)


def test_the_defaults_are_the_papers() -> None:
    config = JudgeConfig(model="m")
    assert (config.temperature, config.max_tokens, config.passage_chars) == (
        0.1,
        16_000,
        50_000,
    )
    assert config.prompt == "shared_prefix"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"type": "llm", "model": "m", "temprature": 0}, "did you mean 'temperature'"),
        ({"type": "llm", "model": "m", "timeout": 3}, "did you mean 'timeout_s'"),
        (
            {"type": "llm", "model": "m", "retries": 3},
            "did you mean 'max_transport_attempts'",
        ),
        ({"type": "lexical", "model": "m"}, "known keys: regex_timeout_s, type"),
        ({"type": "llm"}, "model"),
        ({"type": "llm", "model": ""}, "model"),
        ({"type": "llm", "model": "m", "temperature": -1}, "temperature"),
        (
            {"type": "llm", "model": "m", "timeout_s": 60, "deadline_s": 30},
            "one attempt would not",
        ),
        ({"type": "llm", "model": "m", "transport": "direct"}, "needs the `api_base`"),
        (
            {"type": "llm", "model": "m", "api_base": "localhost"},
            "an address is http://HOST",
        ),
        (
            {"type": "llm", "model": "m", "api_base": ["http://a/v1"] * 2},
            "several different ones",
        ),
        (
            {
                "type": "llm",
                "model": "m",
                "litellm_config": "x",
                "api_base": "http://a",
            },
            "leave out",
        ),
        (
            {"type": "llm", "model": "m", "parameters": {"stream": True}},
            "'stream' is not allowed",
        ),
        (
            {"type": "lexcal"},
            "type: 'lexcal' is no kind of judge: did you mean 'lexical'? use one of lexical",
        ),
        (
            {"type": "oracle"},
            "use one of lexical, claims, llm, listwise, plugin, hybrid",
        ),
        (
            {"type": "openai"},
            "a provider's model is of `type: llm`, with `model: openai/NAME`",
        ),
        ({"type": "sk-live-1"}, "type: '…' is no kind of judge"),
        (
            {"type": "llm"},
            "model: is missing: add it, such as `model: openai/gpt-4.1-mini`",
        ),
        (
            {"type": ["llm"]},
            "use one of lexical, claims, llm, listwise, plugin, hybrid",
        ),
        (
            {"model": "m"},
            "type is missing: use one of lexical, claims, llm, listwise, plugin, hybrid",
        ),
        (
            {"typ": "lexical"},
            "type is missing: did you mean 'type' by 'typ'? use one of lexical",
        ),
        (
            {"type": "llm", "model": "m", "parameters": {"temperature": 0.7}},
            "write `temperature:` at the top level",
        ),
        (
            {"type": "llm", "model": "m", "parameters": {"timeout": 1}},
            "write `timeout_s:` at the",
        ),
        ({"type": "llm", "model": "m", "parameters": {"n": 2}}, "so leave it out"),
    ],
)
def test_a_wrong_configuration_says_what_to_write(
    options: Mapping[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        judge_spec(options, source="judge.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("judge.yaml: ")


@pytest.mark.parametrize(
    "options",
    [
        {"api_base": "https://me:sk-secret@host/v1"},
        {"api_base": "https://host/v1?key=sk-secret"},
        {"api_key_env": "sk-secret"},
        {"api_key": "sk-secret"},
        {"parameters": {"api_key": "sk-secret"}},
        {"parameters": {"sk-secret": {1, 2}}},
        {"parameters": {"seed": {"sk-secret": {1, 2}}}},
        {"parameters": "sk-secret"},
        {"api_base": "http://me:sk-secret@[::1/v1"},
        {"api_base": "http://sk-secret host/v1"},
        {"api_base": "sk-secret"},
        {"api_base": ["sk-secret"]},
        {"api_base": {"sk-secret": 1}},
        {"api_key_env": "sk_secret"},
        {"type": "sk-secret"},
        {"type": ["sk-secret"]},
        {"model": ["sk-secret"]},
        {"transport": "sk-secret"},
        {"limits": {"rpm": "sk-secret"}},
        {"limits": {"sk-secret": 1}},
        {"limits": "sk-secret"},
        {"prices": ["sk-secret"]},
        {"sk-secret": 1},
        {"litellm_config": 5, "temperature": "sk-secret"},
        {"type": "hybrid", "judge": {"type": "sk-secret"}},
        {"type": "hybrid", "judge": {"type": "llm", "model": ["sk-secret"]}},
        {"type": "plugin", "name": ["sk-secret"]},
        {"type": "lexical", "regex_timeout_s": "sk-secret"},
    ],
)
def test_a_key_in_the_wrong_place_is_refused_and_not_repeated(
    options: dict[str, object],
) -> None:
    with pytest.raises(ConfigError) as caught:
        judge_spec({"type": "llm", "model": "m", **options})
    assert "sk-secret" not in str(caught.value) + caught.value.location
    assert "sk_secret" not in str(caught.value)


def test_a_key_for_a_model_is_refused_and_a_dated_name_is_none() -> None:
    key = "sk-proj-abcdefgh12345678"
    with pytest.raises(ConfigError, match="api_key_env") as refused:
        judge_spec({"type": "llm", "model": key})
    assert key not in str(refused.value)
    for name in (
        "openai/gpt-4o-2024-08-06",
        "claude-3-5-sonnet-20241022",
        "hosted_vllm/Qwen/Qwen2.5-0.5B-Instruct",
        "models/checkpoint-00012000",
    ):
        judge_spec({"type": "llm", "model": name})


def test_a_keys_line_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text("type: llm\napi_key_env: sk-secret: y\n")
    with pytest.raises(ConfigError, match=r"judge\.yaml:2:23: is not YAML") as caught:
        read_judge_spec(path)
    assert "sk-secret" not in str(caught.value)


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text("type: llm\nmodel: a\nlimits: {rpm: 1, rpm: 2}\n")
    with pytest.raises(
        ConfigError, match=r"judge\.yaml:3:18: the key 'rpm' stands here a second"
    ):
        read_judge_spec(path)


_NO_HOSTS = [
    "http://judge..local/v1",
    f"http://{'a' * 64}.local/v1",
    f"http://{'.'.join(['a' * 60] * 5)}/v1",
    "http://the judge/v1",
    "http://judge/v1 ",
    "http://jud\nge/v1",
    "http://judge:99999/v1",
    "http://judge:0/v1",
    "http://judge:abc/v1",
    "http://-judge/v1",
    "http://1.2.3.4.5/v1",
    "http://256.1.1.1/v1",
    "http://[::1/v1",
    "http://[::zz]/v1",
    "http:///v1",
    "http://jud*ge/v1",
    "http://xn--a\u2603/v1",
    "http://☃.example/v1",
    "judge.local:8000/v1",
]


@pytest.mark.parametrize("transport", ["litellm", "direct"])
@pytest.mark.parametrize("address", _NO_HOSTS)
def test_an_address_that_no_client_can_call_is_refused(
    address: str, transport: str
) -> None:
    options = {"type": "llm", "model": "m", "transport": transport, "api_base": address}
    with pytest.raises(
        ConfigError, match=r"^judge: api_base: an address is http://HOST"
    ) as caught:
        judge_spec(options)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:8000/v1",
        "http://[::1]:8000/v1",
        "https://judge_1.my-cluster.local./v1",
        "http://node1/v1",
        "http://xn--mller-kva.example:65535",
        "HTTPS://Judge.Example/openai/v1/",
    ],
)
def test_an_address_is_taken_as_it_is(address: str) -> None:
    assert JudgeConfig(model="m", api_base=address).api_base == address


@given(
    host=st.text(max_size=12)
    | st.from_regex(r"[a-z0-9.:\[\]%_-]{1,12}", fullmatch=True)
)
def test_both_clients_can_write_a_request_to_every_address_that_is_taken(
    host: str,
) -> None:
    address = f"http://{host}/v1"
    try:
        JudgeConfig(model="m", api_base=address)
    except ValidationError:
        return
    assert URL(address).raw_host
    assert httpx.URL(address).raw_host


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_no_setting_is_infinite_or_no_number(number: float) -> None:
    def numbers(model: type[BaseModel]) -> Iterator[str]:
        for name, field in model.model_fields.items():
            if {float, int} & {field.annotation, *get_args(field.annotation)}:
                yield name

    models = (
        JudgeConfig,
        LimitsConfig,
        Prices,
        LexicalConfig,
        HybridConfig,
        SandboxConfig,
    )
    models = (*models, Hedging, ServeConfig)
    settings = [(model, name) for model in models for name in numbers(model)]
    assert {"backoff_s", "timeout_s", "deadline_s", "temperature"} <= {
        name for _, name in settings
    }
    for model, name in settings:
        with pytest.raises(ValidationError) as caught:
            model.model_validate({name: number})
        assert (name,) in {problem["loc"] for problem in caught.value.errors()}
    with pytest.raises(ConfigError, match=r"parameters\.seed\.float: needs a finite"):
        judge_spec({"type": "llm", "model": "m", "parameters": {"seed": number}})


def test_a_litellm_file_is_looked_for_beside_the_judges_file(tmp_path: Path) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text("type: llm\nmodel: judge\nlitellm_config: sub/router.yaml\n")
    spec = read_judge_spec(path)
    assert isinstance(spec, JudgeConfig)
    assert spec.litellm_config == tmp_path / "sub" / "router.yaml"


def test_off_is_off_though_yaml_reads_it_as_false(tmp_path: Path) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text("type: llm\nmodel: m\nevidence: off\n")
    assert read_judge_spec(path) == JudgeConfig(model="m", evidence="off")


@pytest.mark.parametrize(
    ("text", "message"),
    [("type: [", "is not YAML"), ("- lexical", "needs `type:"), ("", "needs `type:")],
)
def test_a_file_that_is_no_mapping_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_judge_spec(path)
    with pytest.raises(ConfigError, match="there is no such file"):
        read_judge_spec(tmp_path / "missing.yaml")


def test_each_kind_of_configuration_makes_its_judge() -> None:
    assert isinstance(load_judge(LexicalConfig()), LexicalJudge)
    judge = load_judge(JudgeConfig(model="openai/m", api_base="http://127.0.0.1:1/v1"))
    assert isinstance(judge, LLMJudge)
    assert judge.name.startswith("openai/m shared_prefix_v1:")


def test_the_fingerprint_changes_with_what_may_change_a_score_and_nothing_else() -> (
    None
):
    def fingerprint(**changes: object) -> str:
        settings = {"model": "m", "api_base": "http://127.0.0.1:1/v1", **changes}
        return LLMJudge(JudgeConfig.model_validate(settings)).fingerprint

    same = [{"api_base": "http://127.0.0.1:2/v1"}, {"timeout_s": 9}, {"backoff_s": 9}]
    assert {fingerprint(**changes) for changes in same} == {fingerprint()}
    different = [
        {"model": "other"},
        {"prompt": "paper"},
        {"evidence": "report"},
        {"evidence": "require"},
        {"temperature": 0.2},
        {"temperature": None},
        {"max_tokens": 9},
        {"passage_chars": 9},
        {"parameters": {"seed": 1}},
        {"transport": "direct"},
    ]
    assert (
        len({fingerprint(), *(fingerprint(**changes) for changes in different)}) == 11
    )


def test_the_lexical_judges_settings_are_in_its_fingerprint() -> None:
    configs = [LexicalConfig(), LexicalConfig(), LexicalConfig(regex_timeout_s=0.5)]
    assert len({LexicalJudge(config).fingerprint for config in configs}) == 2


# What the author of a plugin writes who knows of nothing but `Judge`, as an installed package.
_PLUGIN = """
from pathlib import Path

from rubric_core import JudgeResult


class Plain:
    name = "plain_v1"

    def __init__(self, options):
        self.share, self.closed = options["share"], Path(options["closed"])

    async def judge(self, view):
        scores = {criterion.id: criterion.weight * self.share for criterion in view.rubric}
        return JudgeResult.scored(view.rubric, scores, judge=self.name)

    async def aclose(self):
        self.closed.touch()


def no_judge(options):
    return 7
"""


@pytest.fixture
def plain_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain_judge.py").write_text(_PLUGIN, encoding="utf-8")
    info = tmp_path / "plain_judge-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: plain-judge\nVersion: 1\n"
    )
    (info / "entry_points.txt").write_text(
        "[rubric.judges]\nplain = plain_judge:Plain\nnone = plain_judge:no_judge\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("plain_package")
def test_a_plugin_with_other_options_is_another_judge_to_a_ledger(
    make_view: Callable[..., JudgeView], tmp_path: Path
) -> None:
    closed = tmp_path / "closed"

    async def total(ledger: Ledger, share: float) -> float | None:
        options = {"share": share, "closed": str(closed)}
        pool = JudgePool(
            load_judge(PluginConfig(name="plain", options=options)), ledger=ledger
        )
        (result,) = await pool.judge_all([make_view()])
        await pool.aclose()
        return result.total

    with Ledger(tmp_path / "ledger") as ledger:
        assert [anyio.run(total, ledger, share) for share in (1.0, 0.0, 1.0)] == [
            3.0,
            0.0,
            3.0,
        ]
        assert len(list(ledger.entries())) == 2
    assert closed.exists()


@pytest.mark.usefixtures("plain_package")
@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("plian", "did you mean 'plain'? use one of none, plain"),
        ("oracle", "use one of none, plain"),
        ("lexicla", "did you mean `type: lexical`?"),
    ],
)
def test_an_unknown_plugin_is_told_with_its_line_and_offered_plugins_alone(
    tmp_path: Path, name: str, remedy: str
) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text(f"type: hybrid\njudge:\n  type: plugin\n  name: {name}\n")
    with pytest.raises(ConfigError) as caught:
        read_judge_spec(path)
    wrong = f"judge.name: needs a judge that an installed package adds ({remedy}), not {name!r}"
    assert str(caught.value) == f"{path}:4: {wrong}"


@pytest.mark.usefixtures("plain_package")
def test_what_a_plugin_makes_must_be_a_judge() -> None:
    with pytest.raises(
        PluginError, match=r"'none' in 'rubric\.judges' makes a int, which"
    ):
        load_judge(PluginConfig(name="none"))


def test_plugins_are_found_by_their_entry_point() -> None:
    assert {"lexical", "llm"} <= set(judge_names())
    assert isinstance(load_judge(PluginConfig(name="lexical")), LexicalJudge)
    options = {"model": "openai/m", "api_base": "http://127.0.0.1:1/v1"}
    assert isinstance(load_judge(PluginConfig(name="llm", options=options)), LLMJudge)
    with pytest.raises(ConfigError, match="did you mean 'regex_timeout_s'"):
        find_judge("lexical")({"regex_timeout": 1})
    with pytest.raises(PluginError, match="lexical"):
        load_judge(PluginConfig(name="lexicla"))


def test_the_command_is_installed() -> None:
    (command,) = entry_points(group="console_scripts", name="rubric-judge")
    assert command.value == "rubric_judge.cli:main"


def test_a_key_comes_from_the_named_variable_and_hides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = JudgeConfig(model="openai/m", api_key_env="MY_KEY")
    monkeypatch.setenv("MY_KEY", " sk-secret ")
    key = api_key(config)
    assert key is not None
    assert key.get_secret_value() == "sk-secret"
    assert "secret" not in f"{key!r}{key}{config!r}{config.model_dump_json()}"


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_key_says_which_variable(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv("MY_KEY", raising=False)
    else:
        monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(JudgeSetupError, match="'MY_KEY', which is not set: export it"):
        load_judge(JudgeConfig(model="openai/m", api_key_env="MY_KEY"))


def test_a_hosted_providers_key_does_not_go_to_another_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    own = api_key(JudgeConfig(model="openai/m", api_base="http://127.0.0.1:1/v1"))
    assert own is not None
    assert own.get_secret_value() == "no-key"
    assert api_key(JudgeConfig(model="openai/m")) is None


@pytest.mark.parametrize(
    ("model", "transport", "is_direct", "served_name"),
    [
        ("openai/gpt-oss-20b", None, True, "gpt-oss-20b"),
        ("hosted_vllm/openai/gpt-oss-20b", None, True, "openai/gpt-oss-20b"),
        ("openai/gpt-oss-20b", "direct", True, "openai/gpt-oss-20b"),
        ("hosted_vllm/openai/gpt-oss-20b", "direct", True, "openai/gpt-oss-20b"),
        ("openai/gpt-oss-20b", "litellm", False, "gpt-oss-20b"),
        ("anthropic/model", None, False, "anthropic/model"),
    ],
)
def test_ones_own_server_is_called_directly_by_the_name_that_litellm_would_send(
    model: str, transport: str | None, served_name: str, *, is_direct: bool
) -> None:
    options = {
        "model": model,
        "transport": transport,
        "api_base": "http://127.0.0.1:1/v1",
    }
    config = JudgeConfig.model_validate(options)
    assert (config.is_direct, config.served_name) == (is_direct, served_name)
    again = JudgeConfig.model_validate(config.model_dump())
    assert (again.is_direct, again.served_name) == (is_direct, served_name)
    assert not JudgeConfig(model=model, litellm_config=Path("router.yaml")).is_direct
    litellms = {**options, "parameters": {"extra_body": {"seed": 1}}}
    if is_direct and transport is None:
        with pytest.raises(
            ValidationError, match="'extra_body' in `parameters` is litellm's"
        ):
            JudgeConfig.model_validate(litellms)
    else:
        JudgeConfig.model_validate(litellms)


def test_the_fingerprint_says_how_the_model_is_called_and_by_which_name() -> None:
    def fingerprint(transport: str | None) -> str:
        options = {
            "model": "openai/m",
            "transport": transport,
            "api_base": "http://127.0.0.1:1/v1",
        }
        return LLMJudge(JudgeConfig.model_validate(options)).fingerprint

    assert (
        len({fingerprint(transport) for transport in (None, "direct", "litellm")}) == 3
    )
