"""litellm's configuration files, read and run by the real Router."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rubric_core import ConfigError, JudgeView, Outcome, Reason
from rubric_judge import (
    JudgeConfig,
    JudgePool,
    JudgeSetupError,
    LLMJudge,
    read_judge_spec,
)
from rubric_judge.models.router_file import read_router_file
from rubric_judge.testing import FakeEndpoint, Fault

ViewFactory = Callable[..., JudgeView]

GOOD = """
model_list:
  - model_name: judge
    litellm_params: {{model: openai/first, api_base: "{first}", api_key: os.environ/FIRST_KEY}}
  - model_name: spare
    litellm_params:
      model: hosted_vllm/second
      api_base: "{second}"
      api_key: os.environ/SECOND_KEY
router_settings:
  routing_strategy: simple-shuffle
  num_retries: 3
litellm_settings:
  fallbacks: [{{judge: [spare]}}]
general_settings:
  master_key: sk-proxy
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    monkeypatch.setenv("FIRST_KEY", "sk-first")
    monkeypatch.setenv("SECOND_KEY", "sk-second")

    def write(text: str) -> Path:
        path = tmp_path / "litellm.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.mark.anyio
async def test_a_fallback_answers_where_the_first_deployment_fails(
    write: Callable[[str], Path], make_view: ViewFactory, tmp_path: Path
) -> None:
    with (
        FakeEndpoint(faults=[Fault.SERVER_ERROR] * 9) as first,
        FakeEndpoint(0.5) as second,
    ):
        write(GOOD.format(first=first.url, second=second.url))
        spec = tmp_path / "judge.yaml"
        spec.write_text("type: llm\nmodel: judge\nlitellm_config: litellm.yaml\n")
        spec.write_text(spec.read_text() + "allow_fallback_models: true\n")
        config = read_judge_spec(spec)
        assert isinstance(config, JudgeConfig)
        async with LLMJudge(config) as judge:
            await judge.check()
            result = await judge.judge(make_view())
    assert (result.outcome, result.total, result.attempts) == (Outcome.SCORED, 1.5, 2)
    assert result.usage is not None
    assert result.usage.cost_usd is None
    assert second.calls[0].headers["authorization"] == "Bearer sk-second"
    assert second.calls[0].body["model"] == "second"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("routing_strategy", "routing_stratgy", r"did you mean 'routing_strategy'"),
        ("routing_strategy", "sk-secret", r"…: litellm's router has no such setting"),
        (
            "openai/first",
            "nosuchprovider/x",
            r"model_list\.0\.litellm_params\.model: litellm knows",
        ),
        (
            "hosted_vllm/second",
            "sk-secret",
            r"model_list\.1\.litellm_params\.model: litellm knows",
        ),
        (
            "openai/first",
            "openai/m, region_name: [sk-secret]",
            r"\.0\.litellm_params\.region_name",
        ),
        (
            "num_retries: 3",
            "routing_groups: [sk-secret]",
            r"routing_groups: litellm's router refuses",
        ),
        (
            "num_retries: 3",
            "allowed_fails_policy: {BadRequestErrorAllowedFails: sk-secret}",
            r"allowed_fails_policy\.BadRequestErrorAllowedFails: litellm's router refuses it",
        ),
    ],
)
async def test_what_the_router_refuses_is_named_and_not_quoted(
    write: Callable[[str], Path],
    make_view: ViewFactory,
    old: str,
    new: str,
    message: str,
) -> None:
    text = GOOD.format(first="http://127.0.0.1:1/v1", second="http://127.0.0.1:1/v1")
    path = write(text.replace(old, new))
    async with LLMJudge(JudgeConfig(model="judge", litellm_config=path)) as judge:
        result = await judge.judge(make_view())
        with pytest.raises(
            JudgeSetupError, match=rf"{path}:\d+: .*{message}"
        ) as caught:
            await JudgePool(judge).check()
    assert (result.reason, result.attempts) == (Reason.BAD_REQUEST, 0)
    assert len(str(caught.value).splitlines()) == 1
    assert "sk-secret" not in f"{caught.value}{result!r}"


@pytest.mark.anyio
async def test_a_file_whose_servers_are_down_is_named_with_whose_keys_they_were(
    write: Callable[[str], Path],
) -> None:
    path = write(
        GOOD.format(first="http://127.0.0.1:1/v1", second="http://127.0.0.1:1/v1")
    )
    async with LLMJudge(JudgeConfig(model="judge", litellm_config=path)) as judge:
        with pytest.raises(
            JudgeSetupError, match=r"litellm\.yaml' \(key: as that file says\) does"
        ):
            await judge.check()


def test_what_is_read_and_what_is_left(write: Callable[[str], Path]) -> None:
    file = read_router_file(
        write(GOOD.format(first="http://a/v1", second="http://b/v1")), model="judge"
    )
    assert file.settings == {
        "routing_strategy": "simple-shuffle",
        "fallbacks": [{"judge": ["spare"]}],
    }
    assert file.ignored == ("general_settings", "router_settings.num_retries")
    assert list(file.variables) == ["FIRST_KEY", "SECOND_KEY"]
    identity = file.identity(lambda _: "sk-read")
    assert "http" not in identity
    assert "sk-" not in f"{file!r}{identity}"


def test_the_fingerprint_follows_the_models_and_not_the_addresses(
    write: Callable[[str], Path],
) -> None:
    def fingerprint(text: str) -> str:
        return LLMJudge(
            JudgeConfig(model="judge", litellm_config=write(text))
        ).fingerprint

    here = fingerprint(GOOD.format(first="http://a/v1", second="http://b/v1"))
    assert fingerprint(GOOD.format(first="http://c/v1", second="http://d/v1")) == here
    other = GOOD.replace("openai/first", "openai/other")
    assert fingerprint(other.format(first="http://a/v1", second="http://b/v1")) != here


SAME = """
model_list:
  - model_name: judge
    litellm_params: {model: os.environ/JUDGE_MODEL, api_key: k, api_base: "http://a/v1"}
  - model_name: spare
    litellm_params: {model: openai/spare, api_key: k, base_url: "http://b/v1"}
router_settings:
  model_group_alias: {alias: judge}
  default_litellm_params: {top_p: 0.1, api_key: k, extra_headers: {Authorization: k}}
  cooldown_time: 5
"""


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("alias: judge", "alias: spare", False),
        ("top_p: 0.1", "top_p: 0.9", False),
        ("cooldown_time: 5", "enable_pre_call_checks: true", False),
        ("api_key: k,", "api_key: k, weight: 3,", False),
        ("api_key: k", "api_key: other", True),
        ("Authorization: k", "Authorization: other", True),
        ("http://b/v1", "http://c/v1", True),
        ("cooldown_time: 5", "cooldown_time: 9", True),
        ("api_key: k,", "api_key: k, input_cost_per_token: 1.0e-6,", True),
        ("api_key: k,", "api_key: k, output_cost_per_audio_token: 1.0e-6,", True),
        ("api_key: k,", "api_key: k, prompt_cache_key: a,", True),
    ],
)
def test_every_setting_that_may_change_a_score_changes_the_fingerprint(
    write: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    *,
    old: str,
    new: str,
    is_same: bool,
) -> None:
    monkeypatch.setenv("JUDGE_MODEL", "openai/one")

    def fingerprint(text: str) -> str:
        return LLMJudge(
            JudgeConfig(model="alias", litellm_config=write(text))
        ).fingerprint

    before = fingerprint(SAME)
    assert (fingerprint(SAME.replace(old, new)) == before) is is_same
    monkeypatch.setenv("JUDGE_MODEL", "openai/other")
    assert fingerprint(SAME) != before


ONE = "model_list: [{model_name: judge, litellm_params: {model: openai/m, api_key: sk-secret}}]\n"


TWICE = "model_list:" + 2 * (
    "\n- {model_name: judge, model_info: {id: one}, litellm_params: {model: openai/m}}"
)


def _settings(text: str) -> str:
    return f"{ONE}router_settings: {{{text}}}"


def _deployment(text: str) -> str:
    return ONE.replace("api_key: sk-secret", text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ONE.replace("judge", "jugde"), "did you mean 'jugde'"),
        (
            "",
            "model_list: is missing: add it, such as `model_list: [{model_name: judge, ",
        ),
        ("[sk-secret]", "litellm.yaml: needs a mapping of keys to values"),
        ("model_list: []", "litellm.yaml:1: model_list: must have 1 or more items"),
        (
            "model_list: {a: b}",
            "litellm.yaml:1: model_list: needs a list, such as [a, b]",
        ),
        (
            "model_list: [{model_name: judge, litellm_params: openai/x}]",
            "litellm.yaml:1: model_list.0.litellm_params: needs a mapping of keys to values",
        ),
        (
            ONE.replace("judge", "other"),
            "no model_name in model_list is 'judge': it has other",
        ),
        (
            "model_list: [{model_name: judge}]",
            "model_list.0.litellm_params: is missing: add it, such as `litellm_params: {model: op",
        ),
        (
            "model_list: [{model_name: judge, litellm_params: {}}]",
            "model_list.0.litellm_params.model: is missing: add it, such as `model: openai/",
        ),
        (
            "model_list: [{litellm_params: {model: m}}]",
            "model_list.0.model_name: is missing: add",
        ),
        (
            ONE.replace("judge", "''"),
            "model_list.0.model_name: must have 1 or more characters",
        ),
        ("model_list: [sk-secret: [", "litellm.yaml:1:26: is not YAML"),
        (
            ONE + "model_list: []",
            "litellm.yaml:2:1: the key 'model_list' stands here a second",
        ),
        (ONE + "router_setings: {}", "did you mean 'router_settings'"),
        (
            ONE + "router_settings: [sk-secret]",
            "router_settings: needs a mapping of keys to values",
        ),
        (
            ONE + "litellm_settings: {cache: true}",
            "litellm_settings.cache: would change litellm",
        ),
        (
            ONE + "router_settings: {fallbacks: [{judge: [spare]}]}",
            "fallbacks: no model_name",
        ),
        (
            ONE + "router_settings: {fallbacks: sk-secret}",
            "fallbacks: is a list such as",
        ),
        (ONE + "router_settings: {default_fallbacks: [juge]}", "did you mean 'judge'"),
        (
            ONE + "sk-secret: {}",
            "unknown key '…' (unshown: maybe a secret): known keys: gen",
        ),
        (
            ONE + "litellm_settings: {sk-secret: 1}",
            "litellm_settings.…: would change litellm",
        ),
        (
            ONE + "router_settings: {1: 2}",
            "litellm.yaml:2:19: a key is a text: name it",
        ),
        (
            ONE + "litellm_settings: {1: 2}",
            "litellm.yaml:2:20: a key is a text: name it",
        ),
        (
            _settings("fallbacks: [{1: [judge]}]"),
            "litellm.yaml:2:32: a key is a text: name it",
        ),
        (_settings("fallbacks: [{judge: [1]}]"), "fallbacks: is a list such as"),
        (
            _settings("fallbacks: [{judge: [{sk-secret: 1}]}]"),
            "fallbacks: is a list such as",
        ),
        (
            _settings("fallbacks: [{sk-secret: [judge]}]"),
            "fallbacks: no model_name in model_list",
        ),
        (_settings("default_fallbacks: judge"), "default_fallbacks: is a list such as"),
        (
            _settings("model_group_alias: sk-secret"),
            "model_group_alias: needs a mapping of keys to values",
        ),
        (
            _settings("model_group_alias: {1: judge}"),
            "litellm.yaml:2:39: a key is a text: name it",
        ),
        (
            _settings("model_group_alias: {a: [sk-secret]}"),
            "model_group_alias.a: needs the model",
        ),
        (
            _settings("model_group_alias: {a: jugde}"),
            "model_group_alias: no model_name in model",
        ),
        (
            _settings("routing_strategy: sk-secret"),
            "routing_strategy: needs 'simple-shuffle', 'l",
        ),
        (_settings("routing_strategy: least-bussy"), "did you mean 'least-busy'"),
        (
            _settings("routing_strategy: [sk-secret]"),
            "routing_strategy: needs 'simple-shuffle', ",
        ),
        (
            _settings("routing_groups: sk-secret"),
            "router_settings.routing_groups: needs a list",
        ),
        (
            _settings("cooldown_time: sk-secret"),
            "router_settings.cooldown_time: needs a number",
        ),
        (
            _settings("allowed_fails: .nan"),
            "router_settings.allowed_fails: needs a finite ",
        ),
        (
            _settings("redis_host: [sk-secret]"),
            "router_settings.redis_host: needs a text",
        ),
        (
            _settings("redis_password: 987654321"),
            "router_settings.redis_password: needs a text",
        ),
        (_settings("cooldown_time: os.environ/X"), "cooldown_time: needs a number"),
        (_settings("enable_pre_call_checks: sk-secret"), "needs `true` or `false`"),
        (
            _settings("default_litellm_params: sk-secret"),
            "default_litellm_params: needs a mapping",
        ),
        (
            _settings("default_litellm_params: {rpm: sk-secret}"),
            "litellm_params.rpm: needs a num",
        ),
        (
            _settings("default_litellm_params: {api_key: 987654321}"),
            "router_settings.default_litellm_params.api_key: needs a text, such as os.environ/",
        ),
        (
            _settings("routing_strategy_args: &a {a: *a}"),
            "litellm.yaml:2:49: this alias stands within",
        ),
        (_deployment("1: sk-secret"), "litellm.yaml:1:68: a key is a text: name it"),
        (
            _deployment("extra_headers: {1: sk-secret}"),
            "litellm.yaml:1:84: a key is a text: name it",
        ),
        (
            _deployment("api_key: 987654321"),
            "model_list.0.litellm_params.api_key: needs a text",
        ),
        (
            _deployment("api_key: [sk-secret]"),
            "model_list.0.litellm_params.api_key: needs a text",
        ),
        (
            _deployment("api_key: [sk-secret], api_base: 5"),
            "litellm_params.api_base: needs a text",
        ),
        (
            _deployment("api_base: 5"),
            "model_list.0.litellm_params.api_base: needs a text",
        ),
        (
            _deployment("rpm: sk-secret"),
            "model_list.0.litellm_params.rpm: needs a number",
        ),
        (_deployment("tpm: true"), "model_list.0.litellm_params.tpm: needs a number"),
        (
            _deployment("weight: .inf"),
            "model_list.0.litellm_params.weight: needs a finite number",
        ),
        (
            _deployment("timeout: -1"),
            "model_list.0.litellm_params.timeout: must be 0 or more",
        ),
        (
            _deployment("api_key: os.environ/sk-secret"),
            "api_key: needs the name of an environment",
        ),
        (
            _deployment("api_key: os.environ/"),
            "api_key: needs the name of an environment",
        ),
        (
            ONE.replace("}}]", "}, model_info: sk-secret}]"),
            "model_list.0.model_info: needs a mapping",
        ),
        (ONE.replace("}}]", "}, rpm: sk-secret}]"), "model_list.0.rpm: needs a number"),
        (TWICE, "model_list.1.model_info.id: stands at another deployment too"),
    ],
)
def test_a_wrong_file_names_file_and_key_and_shows_no_secret(
    write: Callable[[str], Path], text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        LLMJudge(JudgeConfig(model="judge", litellm_config=write(text)))
    assert message in str(caught.value)
    assert "litellm.yaml" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    for secret in ("sk-secret", "987654321"):
        assert secret not in str(caught.value) + caught.value.location


def test_redis_is_asked_for_before_the_router_is_made(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)  # as where it is not installed
    with pytest.raises(
        ConfigError, match=r"router_settings\.redis_host: needs the package `redis`"
    ):
        read_router_file(write(_settings("redis_host: localhost")), model="judge")


def test_what_litellm_takes_is_taken(write: Callable[[str], Path]) -> None:
    text = _settings(
        "model_group_alias: {a: judge, b: {model: judge, hidden: true}}, cooldown_time: 1.5, "
        "routing_strategy: latency-based-routing, routing_strategy_args: {ttl: 10}, "
        "allowed_fails: 3, default_fallbacks: [judge], fallbacks: [{'*': [judge]}]"
    ).replace(
        "api_key: sk-secret",
        "rpm: 100, tpm: '9', timeout: 30, vertex_credentials: {a: b}",
    )
    assert read_router_file(write(text), model="a").settings["cooldown_time"] == 1.5


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read"):
        LLMJudge(JudgeConfig(model="judge", litellm_config=tmp_path / "none.yaml"))


def test_a_key_that_is_not_there_is_named(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(GOOD.format(first="http://a/v1", second="http://b/v1"))
    monkeypatch.delenv("SECOND_KEY")
    with pytest.raises(
        JudgeSetupError,
        match=r"\.yaml:9: model_list\.1\.litellm_params\.api_key .*SECOND_KEY",
    ):
        LLMJudge(JudgeConfig(model="judge", litellm_config=path))
    monkeypatch.setenv("SECOND_KEY", "sk-one\nsk-two")
    with pytest.raises(
        JudgeSetupError,
        match=r"\.yaml:9: model_list\.1\.litellm_params\.api_key .*SECOND_KEY.* a line break",
    ):
        LLMJudge(JudgeConfig(model="judge", litellm_config=path))
