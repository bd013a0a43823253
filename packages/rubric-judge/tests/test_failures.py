"""What servers say about themselves, which may be nonsense."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rubric_judge.models.chat import read_completion
from rubric_judge.models.failures import retry_after_s

DATES = st.from_regex(
    r"[A-Z][a-z]{2}, \d{1,3} (Jan|Feb|Foo) \d{1,30} \d{1,3}:\d\d:\d\d (GMT|[+-]\d{1,25})",
    fullmatch=True,
)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ((), None),
        (("",), None),
        (("2.5",), 2.5),
        (("0",), 0.0),
        (("-3",), 0.0),
        (("inf",), None),
        (("nan",), None),
        (("soon",), None),
        (("Wed, 21 Oct 2015 07:28:00 GMT",), 0.0),
        (("Wed, 21 Oct 2015 07:28:00",), None),
        (("1", "9999"), 9999.0),
        (("9999", "soon", "1"), 9999.0),
        (("1, 9999",), 9999.0),
        (("Mon, 01 Jan 99999999999999999999999 00:00:00 GMT",), None),
        (("Mon, 01 Jan 2024 00:00:00 +99999999999999999999",), None),
    ],
)
def test_retry_after_is_the_longest_time_in_seconds_or_until_a_date(
    headers: tuple[str, ...], seconds: float | None
) -> None:
    assert retry_after_s(*headers) == seconds


@given(st.one_of(st.text(), DATES, st.text("0123456789.,-+e: GMTJan")))
@example("Mon, 01 Jan 9999 00:00:00 -9999")
def test_any_header_is_a_finite_wait_or_none(header: str) -> None:
    wait_s = retry_after_s(header)
    assert wait_s is None or (math.isfinite(wait_s) and wait_s >= 0)


@pytest.mark.parametrize("nonsense", [10**13, 10**40, -1, True, "7", 1.5, None])
def test_a_count_of_tokens_that_cannot_be_is_none(nonsense: object) -> None:
    details = {"cached_tokens": nonsense}
    usage = {
        "prompt_tokens": nonsense,
        "completion_tokens": 7,
        "prompt_tokens_details": details,
    }
    choice = {"finish_reason": "stop", "message": {"content": ""}}
    found = read_completion({"choices": [choice], "usage": usage}).usage
    assert found is not None
    assert (found.prompt_tokens, found.completion_tokens, found.cached_tokens) == (
        0,
        7,
        None,
    )
