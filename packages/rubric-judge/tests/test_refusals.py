"""What a refusal is about, in the words of many servers; none of their text is ever shown."""

import pytest

from rubric_core import Reason
from rubric_judge.models.failures import status_error
from rubric_judge.models.refusals import (
    read_refusal,
    status_in_success,
    unsendable_field,
)


def _openai(message: str = "Zyzzyva", **fields: object) -> dict[str, object]:
    return {"error": {"message": message, "type": "invalid_request_error", **fields}}


CONTEXT: dict[str, tuple[int, dict[str, object]]] = {
    "openai": (400, _openai(code="context_length_exceeded", param="messages")),
    "vllm": (
        400,
        _openai(
            "This model's maximum context length is 8 tokens", param="input_tokens"
        ),
    ),
    "vllm, max_tokens": (
        400,
        _openai(
            "'max_tokens' is too large: 9. This model's maximum context length is 8 tokens"
        ),
    ),
    "sglang": (
        400,
        {
            "object": "error",
            "message": "longer than the model's context length",
            "code": 400,
        },
    ),
    "llama.cpp": (400, _openai(type="exceed_context_size_error", code=400)),
    "anthropic": (400, _openai("prompt is too long: 9 tokens > 8 maximum")),
    "groq": (400, _openai("Please reduce the length of the messages or completion.")),
    "gemini": (
        400,
        _openai("The input token count (9) exceeds the maximum number of tokens"),
    ),
    "tgi": (
        422,
        {"error": "`inputs` tokens + `max_new_tokens` must be <= 8", "error_type": "v"},
    ),
    "too large": (413, {}),
}


@pytest.mark.parametrize("server", CONTEXT)
def test_a_prompt_that_is_too_long_is_known_of_many_servers(server: str) -> None:
    status, body = CONTEXT[server]
    assert read_refusal(body, status=status).about == "context"


CREDIT: dict[str, tuple[int, dict[str, object]]] = {
    "openai": (429, _openai(type="insufficient_quota", code="insufficient_quota")),
    "moonshot": (429, _openai(type="exceeded_current_quota_error")),
    "zhipu": (429, _openai(code="1113")),
    "alibaba": (400, _openai(code="Arrearage")),
    "anthropic": (400, _openai("Your credit balance is too low to access the API")),
    "deepseek": (402, _openai("Insufficient Balance")),
    "page": (402, {}),
}


@pytest.mark.parametrize("server", CREDIT)
def test_an_account_without_money_is_out_of_credit_and_asked_once(server: str) -> None:
    status, body = CREDIT[server]
    refusal = read_refusal(body, status=status)
    error = status_error(status, refusal=refusal)
    assert (refusal.about, error.reason) == ("credit", Reason.OUT_OF_CREDIT)
    assert "out of credit" in error.detail


@pytest.mark.parametrize(
    ("body", "field", "remedy"),
    [
        (_openai(param="response_format"), "response_format", "`schema: json_object`"),
        (
            _openai(param="response_format.type"),
            "response_format",
            "`schema: json_object`",
        ),
        (
            _openai("This response_format type is unavailable now"),
            "response_format",
            "`schema:",
        ),
        (
            _openai("Unknown name json_schema"),
            "response_format",
            "`schema: json_object`",
        ),
        (_openai(param="temperature"), "temperature", "`temperature: null`"),
        (
            _openai("`temperature` is deprecated for this model"),
            "temperature",
            "temperature: null",
        ),
        (
            _openai("max_tokens: 9 > 8, which is the maximum"),
            "max_tokens",
            "a smaller `max_tokens`",
        ),
        (
            {"detail": [{"loc": ["body", "seed"], "msg": "Zyzzyva"}]},
            "seed",
            "`parameters`",
        ),
        (
            _openai("Requested sample logprobs of 20, which is greater than max: 5"),
            "top_logprobs",
            "a smaller `top_logprobs`",
        ),
        (
            _openai("Cannot request more than 5 logprobs."),
            "top_logprobs",
            "--max-logprobs",
        ),
        (
            _openai("top_logprobs must be less than or equal to 5"),
            "top_logprobs",
            "a smaller `top_logprobs`",
        ),
        (
            _openai(param="logit_bias"),
            "logit_bias",
            "`logit_bias`: take it out of `parameters`",
        ),
    ],
)
def test_a_field_that_is_refused_is_named_with_its_setting(
    body: dict[str, object], field: str, remedy: str
) -> None:
    refusal = read_refusal(
        body, status=422 if "detail" in body else 400, sent=["logit_bias"]
    )
    error = status_error(400, refusal=refusal)
    assert (refusal.about, error.refused) == ("field", field)
    assert remedy in error.detail
    assert "Zyzzyva" not in error.detail


@pytest.mark.parametrize(
    "body",
    [
        _openai(param="max_tokens", code="unsupported_parameter"),
        _openai("'max_tokens' is not supported. Use 'max_completion_tokens' instead."),
    ],
)
def test_another_name_for_a_field_is_known(body: dict[str, object]) -> None:
    refusal = read_refusal(body, status=400)
    assert (refusal.field, refusal.instead) == ("max_tokens", "max_completion_tokens")


@pytest.mark.parametrize(
    "body",
    [
        {},
        _openai(),
        _openai(param="Zyzzyva"),
        _openai(code=["context_length_exceeded"]),
        {"error": ["Zyzzyva"]},
        {"detail": [7, {"loc": "Zyzzyva"}, {"loc": [1]}]},
        _openai("The temperatures rise"),
    ],
)
def test_what_is_not_known_is_about_nothing(body: dict[str, object]) -> None:
    refusal = read_refusal(body, status=400)
    assert (refusal.about, refusal.field) == ("", "")
    assert "Zyzzyva" not in status_error(400, refusal=refusal).detail


def test_a_limit_that_speaks_of_quota_is_no_empty_account() -> None:
    body = _openai(
        "You exceeded your current quota. Please retry in 3s",
        status="RESOURCE_EXHAUSTED",
    )
    assert read_refusal(body, status=429).about == ""


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": 429}, 429),
        ({"code": 429.0}, 429),
        ({"code": "502"}, 502),
        ({"code": "rate_limit_exceeded"}, 429),
        ({"type": "insufficient_quota"}, 402),
        ({"code": 200}, None),
        ({"code": True}, None),
        ({"message": "Zyzzyva"}, None),
        ("Rate limit exceeded", 429),
        (["429"], None),
    ],
)
def test_an_error_in_a_success_has_the_status_that_it_says(
    error: object, status: int | None
) -> None:
    assert status_in_success(error) == status


def test_the_field_is_found_in_what_litellm_says() -> None:
    said = (
        "gpt-5 models don't support temperature=0.1. Only temperature=1 is supported."
    )
    assert unsendable_field(said) == "temperature"
    assert unsendable_field("no field of ours") == ""
