"""`verdict: probability` over real HTTP: what is sent, what is read, and what is refused."""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from rubric_core import (
    ConfigError,
    Criterion,
    JudgeResult,
    JudgeView,
    Outcome,
    Reason,
    Rubric,
)
from rubric_judge import (
    CascadeCalibration,
    CascadeConfig,
    CascadeJudge,
    HybridConfig,
    HybridJudge,
    JudgeConfig,
    JudgePool,
    Ledger,
    LLMJudge,
    judge_spec,
    load_judge,
)
from rubric_judge.errors import JudgeSetupError
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.testing import FakeEndpoint, Fault
from rubric_judge.testing.calls import FakeCall
from rubric_judge.testing.replies import ServedModel

ViewFactory = Callable[..., JudgeView]
Entry = tuple[str, float]
_LOSS = "Required elements: cross entropy"
"""Stands in the prompt for the first criterion alone."""


def _config(url: str, **options: object) -> JudgeConfig:
    settings: dict[str, Any] = {
        "model": "openai/fake",
        "api_base": url,
        "verdict": "probability",
        "backoff_s": 0.001,
        "max_transport_attempts": 2,
    }
    return JudgeConfig.model_validate(settings | options)


def _judged(endpoint: FakeEndpoint, view: JudgeView, **options: object) -> JudgeResult:
    async def judge() -> JudgeResult:
        async with LLMJudge(_config(endpoint.url, **options)) as judge:
            return await judge.judge(view)

    return anyio.run(judge)


def _judged_by(judge: HybridJudge | CascadeJudge, view: JudgeView) -> JudgeResult:
    async def run() -> JudgeResult:
        try:
            return await judge.judge(view)
        finally:
            await judge.aclose()

    return anyio.run(run)


def _check(endpoint: FakeEndpoint, **options: object) -> None:
    async def check() -> None:
        async with LLMJudge(_config(endpoint.url, **options)) as judge:
            await judge.check()

    anyio.run(check)


def _entries(tokens: Sequence[Entry]) -> list[dict[str, object]]:
    return [
        {
            "token": token,
            "logprob": math.log(mass) if mass else -9999.0,
            "bytes": list(token.encode()),
        }
        for token, mass in tokens
    ]


def _logprobs(tokens: Sequence[Entry]) -> dict[str, object]:
    entries = _entries(tokens)
    return {"content": [{**entries[0], "top_logprobs": entries}]}


def _listing(*tokens: Entry) -> Callable[[FakeCall], object]:
    return lambda _: _logprobs(tokens)


@pytest.fixture
def view(make_view: ViewFactory) -> JudgeView:
    return make_view(rubric=Rubric(criteria=(Criterion(id="cause", weight=2.0),)))


def test_each_criterion_is_a_word_whose_probability_is_its_score(
    make_view: ViewFactory,
) -> None:
    with FakeEndpoint(
        lambda call: 0.9 if _LOSS in call.messages[-1]["content"] else 0.25
    ) as endpoint:
        result = _judged(endpoint, make_view())

    assert result.outcome is Outcome.SCORED
    assert result.scores["names the loss"] == pytest.approx(2 * 0.9)
    assert result.scores["gives_limit"] == pytest.approx(0.25)
    assert list(result.probabilities) == ["names the loss", "gives_limit"]
    reading = result.probabilities["gives_limit"]
    assert (reading.met, reading.mass) == (
        pytest.approx(0.25),
        pytest.approx(0.96),
    )
    assert reading.low == pytest.approx(0.24 / 0.98)
    assert reading.high == pytest.approx(0.26 / 0.98)
    assert result.attempts == len(endpoint.calls) == 2
    assert result.usage is not None
    assert result.usage.completion_tokens == 2


def test_requests_ask_for_one_token_and_its_alternatives_and_no_schema(
    make_view: ViewFactory,
) -> None:
    with FakeEndpoint(0.5) as endpoint:
        _judged(endpoint, make_view(), parameters={"reasoning_effort": "none"})

    for call in endpoint.calls:
        sent = {name: value for name, value in call.body.items() if name != "messages"}
        assert sent.pop("model") == "fake"
        assert sent["logprobs"] is True
        assert sent["top_logprobs"] == 20
        assert sent["max_tokens"] == 1
        assert sent["temperature"] == 1.0
        assert sent["reasoning_effort"] == "none"
        assert "response_format" not in sent


def test_the_calls_of_a_judgement_differ_only_behind_the_response(
    make_view: ViewFactory,
) -> None:
    with FakeEndpoint(0.5) as endpoint:
        _judged(endpoint, make_view())

    one, other = (call.messages[-1]["content"] for call in endpoint.calls)
    pairs = itertools.takewhile(
        lambda pair: pair[0] == pair[1], zip(one, other, strict=False)
    )
    shared = "".join(character for character, _ in pairs)
    assert "----- END RESPONSE" in shared
    assert shared.endswith("CRITERION")
    assert one.endswith("Answer with one word: yes or no.")
    assert endpoint.calls[0].messages[0] == endpoint.calls[1].messages[0]


def test_spellings_of_a_verdict_are_added_up(view: JudgeView) -> None:
    tokens = [
        ("Yes", 0.30),
        (" yes", 0.10),
        ("\u2581YES", 0.05),
        ("\u0120yes", 0.05),
        ("NO", 0.20),
        (" No\n", 0.20),
        ("Yesterday", 0.06),
        ("n", 0.04),
    ]
    with FakeEndpoint(logprobs=_listing(*tokens)) as endpoint:
        result = _judged(endpoint, view)

    reading = result.probabilities["cause"]
    assert reading.mass == pytest.approx(0.9)
    assert reading.met == pytest.approx(5 / 9)
    assert result.scores["cause"] == pytest.approx(2 * 5 / 9)


def test_a_reading_does_not_depend_on_the_token_that_was_drawn(view: JudgeView) -> None:
    """vLLM's list is the drawn token and the k − 1 most probable, wherever it is drawn."""
    best = [("yes", 0.5), ("no", 0.3), ("The", 0.1), ("Well", 0.05), ("YES", 0.02)]
    drawn_inside = best
    drawn_outside = [("No", 0.01), *best[:4]]
    readings: list[Mapping[str, object]] = []
    for tokens in (drawn_inside, drawn_outside):
        with FakeEndpoint(logprobs=_listing(*tokens)) as endpoint:
            result = _judged(endpoint, view, parameters={"top_logprobs": 5})
        readings.append(result.probabilities)

    assert readings[0] == readings[1]


@pytest.fixture(scope="module")
def shown() -> list[Entry]:
    """The tokens that the endpoint lists; a test changes them."""
    return []


@pytest.fixture(scope="module")
def listing(shown: list[Entry]) -> Iterator[FakeEndpoint]:
    with FakeEndpoint(logprobs=lambda _: _logprobs(shown), keep="counts") as endpoint:
        yield endpoint


WORDS = ("yes", "Yes", " YES", "no", " No", "NO\n")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from([*WORDS, "The", "n", "\ufffd"]), st.floats(0.01, 1)),
        min_size=3,
        max_size=40,
    ),
    st.integers(3, 25),
)
def test_the_expectation_over_all_tokens_is_in_the_interval_at_any_k(
    listing: FakeEndpoint,
    shown: list[Entry],
    view: JudgeView,
    drawn: list[Entry],
    k: int,
) -> None:
    """Any distribution over tokens, equal texts included, of which a server lists k."""
    total = math.fsum(mass for _, mass in drawn)
    tokens = sorted(
        ((text, mass / total) for text, mass in drawn), key=lambda pair: -pair[1]
    )
    shown[:] = tokens[:k]
    said = [(text.strip().casefold(), mass) for text, mass in tokens]
    yes, no = (
        math.fsum(mass for text, mass in said if text == word) for word in ("yes", "no")
    )

    result = _judged(listing, view, parameters={"top_logprobs": k})

    if result.outcome is Outcome.INVALID:
        assert result.reason is Reason.NO_VERDICT
        return
    reading = result.probabilities["cause"]
    assert reading.low - 1e-9 <= yes / (yes + no) <= reading.high + 1e-9
    assert 0.5 <= reading.mass <= yes + no + 1e-9


NONE = "has no log-probabilities of its first token"
MALFORMED = "are malformed"
NO_LOGPROBS = "are no log-probabilities"
YES = {"token": "Yes", "logprob": -0.1, "bytes": [89, 101, 115]}


def _top(*entries: object) -> object:
    return {"content": [{"token": "Yes", "logprob": -0.1, "top_logprobs": [*entries]}]}


@pytest.mark.parametrize(
    ("logprobs", "said"),
    [
        (None, NONE),
        ({"content": None}, NONE),
        ({"content": []}, NONE),
        ({"content": [{"token": "Yes", "logprob": -0.1}]}, NONE),
        (_top(), NONE),
        ("yes", NONE),
        ([1, 2], NONE),
        (_top({"token": "Yes"}), MALFORMED),
        (_top({"token": "Yes", "logprob": None}), MALFORMED),
        (_top({"token": "Yes", "logprob": "-0.1"}), MALFORMED),
        (_top({"token": "Yes", "logprob": True}), MALFORMED),
        (_top({"logprob": -0.1}), MALFORMED),
        (_top({"token": None, "logprob": -0.1, "bytes": [300]}), MALFORMED),
        (_top("Yes"), MALFORMED),
        (_top({"token": "Yes", "logprob": 17.25}), NO_LOGPROBS),
        # A floor in the place of every figure: the most probable token of any list has more.
        (
            _top({**YES, "logprob": -9999.0}, {"token": "No", "logprob": -9999.0}),
            NO_LOGPROBS,
        ),
        (_top(YES, {"token": "No", "logprob": -0.2}), NO_LOGPROBS),
        (
            _top({"token": "token_id:9642", "logprob": -0.1}),
            "--return-tokens-as-token-ids",
        ),
    ],
)
def test_a_reply_without_probabilities_is_the_servers_and_no_number(
    view: JudgeView, logprobs: object, said: str
) -> None:
    with FakeEndpoint("Yes", logprobs=lambda _: logprobs) as endpoint:
        result = _judged(endpoint, view)
        assert (result.outcome, result.reason) == (
            Outcome.UNAVAILABLE,
            Reason.NO_PROBABILITIES,
        )
        assert said in result.detail
        assert len(result.detail) < 200
        assert result.attempts == 1
        with pytest.raises(
            JudgeSetupError, match="cannot be read by probability"
        ) as refused:
            _check(endpoint)
    assert said in str(refused.value)
    assert endpoint.url in str(refused.value)


@pytest.mark.parametrize("number", ["NaN", "1e999", "-Infinity"])
def test_a_number_that_is_none_in_json_brings_no_answer(
    view: JudgeView, number: str
) -> None:
    with FakeEndpoint(
        logprobs=lambda _: _top(YES | {"logprob": float(number)})
    ) as endpoint:
        result = _judged(endpoint, view)

    assert result.outcome is Outcome.UNAVAILABLE
    assert result.scores == {}


def test_bytes_count_where_the_text_of_a_token_is_none(view: JudgeView) -> None:
    entries = [
        {"token": "", "logprob": math.log(0.6), "bytes": list(b" yes")},
        {"token": None, "logprob": math.log(0.2), "bytes": list(b"No")},
        {"token": "\ufffd", "logprob": math.log(0.1), "bytes": [0xE2, 0x96]},
    ]
    with FakeEndpoint(logprobs=lambda _: _top(*entries)) as endpoint:
        result = _judged(endpoint, view)

    assert result.probabilities["cause"].met == pytest.approx(0.75)
    assert result.probabilities["cause"].mass == pytest.approx(0.8)


def test_a_token_that_is_listed_twice_counts_once_and_equal_texts_count_both(
    view: JudgeView,
) -> None:
    twice = [("yes", 0.4), ("yes", 0.4), ("no", 0.3), ("no", 0.1)]
    with FakeEndpoint(logprobs=_listing(*twice)) as endpoint:
        result = _judged(endpoint, view)

    assert result.probabilities["cause"].met == pytest.approx(0.5)
    assert result.probabilities["cause"].mass == pytest.approx(0.8)


def test_a_floor_is_no_probability(view: JudgeView) -> None:
    with FakeEndpoint(logprobs=_listing(("yes", 1.0), ("no", 0.0))) as endpoint:
        result = _judged(endpoint, view)

    reading = result.probabilities["cause"]
    assert (reading.low, reading.met, reading.high) == (1.0, 1.0, 1.0)
    assert result.scores == {"cause": 2.0}


def test_too_little_on_a_verdict_is_invalid_and_says_how_little(
    view: JudgeView,
) -> None:
    tokens = [("The", 0.5), ("yes", 0.3), ("no", 0.1)]
    with FakeEndpoint(logprobs=_listing(*tokens)) as endpoint:
        result = _judged(endpoint, view)
        with capture_logs() as logs:
            _check(endpoint)

    assert (result.outcome, result.reason) == (Outcome.INVALID, Reason.NO_VERDICT)
    assert result.detail == (
        "criterion 'cause': 0.400 of the first token's probability is on yes or no, less than "
        "0.5; 0.100 is on tokens that are not listed"
    )
    (event,) = [log for log in logs if log["event"] == "judge.check.few_verdicts"]
    assert "0.400" in event["why"]


@pytest.mark.parametrize("opening", ["<think>", "<|channel|>", "[THINK]"])
def test_a_model_that_thinks_first_is_refused_and_told_how_not_to(
    view: JudgeView, opening: str
) -> None:
    with FakeEndpoint(logprobs=_listing((opening, 0.99), ("yes", 0.01))) as endpoint:
        result = _judged(endpoint, view)
        with pytest.raises(JudgeSetupError, match="enable_thinking: false"):
            _check(endpoint)

    assert result.reason is Reason.NO_VERDICT
    assert "begins with a thought" in result.detail


class _Counting(ServedModel):
    """A server that counts the tokens of a text, as vLLM does."""

    def count(self, body: Mapping[str, object]) -> dict[str, object]:
        text = str(body.get("prompt", "")).strip().lower()
        return {"count": 2 if text == "no" else 1}


def test_a_verdict_of_several_tokens_is_found_where_the_server_counts_them() -> None:
    tokens = [("yes", 0.6), ("n", 0.4)]
    with (
        FakeEndpoint(served=_Counting(), logprobs=_listing(*tokens)) as endpoint,
        pytest.raises(JudgeSetupError, match="'no' is no single token"),
    ):
        _check(endpoint)


def test_a_verdict_of_several_tokens_shows_in_the_list_where_nobody_counts() -> None:
    with (
        FakeEndpoint(logprobs=_listing(("ye", 0.7), ("n", 0.2))) as endpoint,
        pytest.raises(JudgeSetupError, match="'yes' is no single token"),
    ):
        _check(endpoint)
    with FakeEndpoint(0.5) as endpoint:
        _check(endpoint)


def test_a_server_that_refuses_the_field_is_named_at_the_start(view: JudgeView) -> None:
    with FakeEndpoint(0.5, faults=[Fault.BAD_REQUEST, Fault.BAD_REQUEST]) as endpoint:
        with pytest.raises(JudgeSetupError, match="bad_request"):
            _check(endpoint)
        result = _judged(endpoint, view)
    assert (result.outcome, result.reason) == (Outcome.UNAVAILABLE, Reason.BAD_REQUEST)


def test_a_refusal_is_invalid_and_a_broken_call_unavailable(
    make_view: ViewFactory,
) -> None:
    with FakeEndpoint(0.5, faults=[None, Fault.REFUSAL]) as endpoint:
        refused = _judged(endpoint, make_view())
    with FakeEndpoint(
        0.5, faults=[None, Fault.SERVER_ERROR, Fault.RATE_LIMIT]
    ) as endpoint:
        away = _judged(endpoint, make_view())

    assert (refused.outcome, refused.reason) == (Outcome.INVALID, Reason.REFUSED)
    assert (away.outcome, away.reason) == (Outcome.UNAVAILABLE, Reason.RATE_LIMITED)
    assert refused.probabilities == away.probabilities == {}


def test_the_same_question_has_the_same_score(make_view: ViewFactory) -> None:
    with FakeEndpoint(0.37) as endpoint:
        first = _judged(endpoint, make_view())
        second = _judged(endpoint, make_view())

    assert first.scores == second.scores
    assert first.probabilities == second.probabilities


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"transport": "litellm"}, "`transport: direct`"),
        ({"model": "gemini/x", "api_base": None}, "`transport: direct`"),
        ({"evidence": "report"}, "a verdict of one word has no quote"),
        ({"prompt": "paper"}, "it has a layout of its own"),
        ({"schema": "json_object"}, "a reply of one word has no schema"),
        ({"granularity": "rubric"}, "`granularity: rubric`"),
        ({"granularity": 4}, "one first token"),
        ({"temperature": 0.1}, "temperature=0.1"),
        ({"parameters": {"logprobs": False}}, "'logprobs' in `parameters`"),
        ({"parameters": {"top_logprobs": 1}}, "top_logprobs=1"),
        # The last is not read: of two tokens one is left, and every verdict would be sure.
        ({"parameters": {"top_logprobs": 2}}, "top_logprobs=2"),
        ({"parameters": {"top_logprobs": "5"}}, "top_logprobs='5'"),
    ],
)
def test_what_cannot_be_combined_is_refused_with_the_reason(
    options: dict[str, object], said: str
) -> None:
    settings: dict[str, object] = {
        "type": "llm",
        "model": "openai/fake",
        "api_base": "http://127.0.0.1:9/v1",
        "verdict": "probability",
    }
    with pytest.raises(ConfigError, match="verdict: probability") as refused:
        judge_spec(settings | options)
    assert said in str(refused.value)


def test_a_listwise_judge_has_no_verdict_by_probability() -> None:
    settings = {
        "type": "listwise",
        "model": "openai/fake",
        "api_base": "http://127.0.0.1:9/v1",
        "verdict": "probability",
    }
    with pytest.raises(ConfigError, match="scores all responses in one reply"):
        judge_spec(settings)


def test_settings_go_through_a_dump_and_leave_others_as_they_were() -> None:
    there = "http://127.0.0.1:9/v1"
    sampled = JudgeConfig(model="openai/fake", api_base=there)
    read = _config(there, granularity=1, max_tokens=16, temperature=None)

    assert "verdict" not in sampled.model_dump()
    assert (sampled.temperature, sampled.max_tokens, sampled.granularity) == (
        0.1,
        16_000,
        "rubric",
    )
    for config in (read, _config(there)):
        dumped = json.loads(config.model_dump_json())
        assert JudgeConfig.model_validate(dumped) == config
    assert (read.granularity, read.max_tokens, read.temperature) == (1, 16, None)


def test_fingerprints_tell_the_ways_to_judge_apart_and_others_stay() -> None:
    there = "http://127.0.0.1:9/v1"
    changes: list[dict[str, object]] = [
        {},
        {"granularity": "criterion"},
        {"granularity": 1},
        {"granularity": 8},
        {"verdict": "probability"},
        {"verdict": "probability", "parameters": {"top_logprobs": 5}},
    ]
    fingerprints = [
        fingerprint(
            LLMJudge(
                JudgeConfig.model_validate(
                    {"model": "openai/fake", "api_base": there, **change}
                )
            )
        )
        for change in changes
    ]

    assert len(set(fingerprints)) == len(changes)
    # Keys of ledgers that are older than granularity by number and verdicts by probability.
    assert fingerprints[:2] == [
        "openai/fake shared_prefix_v1:ec6854d6 e8c3ed9dcd69acc6",
        "openai/fake by_criterion_v1:f6bebc74 by criterion e4da4ae250ee3d16",
    ]


def test_readings_come_through_pool_and_ledger(
    make_view: ViewFactory, tmp_path: Path
) -> None:
    path = tmp_path / "judged.db"

    async def judged(endpoint: FakeEndpoint, ledger: Ledger) -> list[JudgeResult]:
        async with LLMJudge(_config(endpoint.url)) as judge:
            pool = JudgePool(judge, ledger=ledger)
            return await pool.judge_all([make_view("a"), make_view("b")])

    with FakeEndpoint(0.7) as endpoint:
        with Ledger(path) as ledger:
            first = anyio.run(judged, endpoint, ledger)
        with Ledger(path) as ledger:
            again = anyio.run(judged, endpoint, ledger)
        assert len(endpoint.calls) == 4

    assert again == first
    assert again[0].probabilities["gives_limit"].met == pytest.approx(0.7)


def test_readings_come_through_a_hybrid_judge(make_view: ViewFactory) -> None:
    criteria = (
        Criterion(id="says", weight=1.0, verification_method="contains_all: entropy"),
        Criterion(id="cause", weight=2.0, description="Names the cause."),
    )
    with FakeEndpoint(0.25) as endpoint:
        read = _config(endpoint.url)
        judge = HybridJudge(load_judge(read), HybridConfig(judge=read))
        result = _judged_by(judge, make_view(rubric=Rubric(criteria=criteria)))

    assert result.scores == {"says": 1.0, "cause": pytest.approx(0.5)}
    assert list(result.probabilities) == ["cause"]


def test_a_cascade_asks_the_next_judge_where_the_probability_is_near_half(
    make_view: ViewFactory,
) -> None:
    def award(call: FakeCall) -> float:
        return 0.98 if _LOSS in call.messages[-1]["content"] else 0.55

    with FakeEndpoint(award) as cheap, FakeEndpoint(1.0) as strong:
        config = CascadeConfig(
            judges=[
                _config(cheap.url),
                JudgeConfig(model="openai/strong", api_base=strong.url),
            ],
            uncertainty="margin",
            audit_frac=0,
        )
        judges = [load_judge(spec) for spec in config.judges]
        calibration = CascadeCalibration.model_validate(
            {
                "version": 1,
                "judges": [fingerprint(judge) for judge in judges],
                "uncertainty": "margin",
                "k": 1,
                "audit_frac": 0.0,
                "unit": "task",
                "risk": 0.1,
                "confidence": 0.9,
                "pooled": {
                    "threshold": 0.2,
                    "n": 50,
                    "risk": 0.0,
                    "bound": 0.05,
                    "escalated": 0.2,
                    "last_risk": 0.0,
                },
            }
        )
        cascade = CascadeJudge(judges, config, calibration)
        result = _judged_by(cascade, make_view())

    assert result.scores == {"names the loss": pytest.approx(1.96), "gives_limit": 1.0}
    assert result.cascade is not None
    assert list(result.cascade.decided_by.values()) == cascade.names
    assert list(result.probabilities) == ["names the loss"]


@pytest.mark.parametrize("uncertainty", ["consistency", "orders"])
def test_a_cascade_that_compares_answers_cannot_use_one(uncertainty: str) -> None:
    there = {"type": "llm", "api_base": "http://127.0.0.1:9/v1", "model": "openai/x"}
    settings = {
        "type": "cascade",
        "uncertainty": uncertainty,
        "judges": [{**there, "verdict": "probability"}, there],
    }
    with pytest.raises(ConfigError, match="judge 1 reads a probability"):
        judge_spec(settings)
