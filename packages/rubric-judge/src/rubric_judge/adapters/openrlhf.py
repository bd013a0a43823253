"""OpenRLHF: a `reward_func` for the file that `--reward.remote_url` names.

OpenRLHF logs an exception of a reward at INFO, and a missing reward ends the run later. A faulty
row is therefore logged here, and a judge's failure is a number and a log entry.
"""

import re
from collections.abc import Callable, Sequence
from typing import Unpack, cast

from rubric_core import (
    Answer,
    RewardShapeError,
    RubricError,
    SchemaError,
    Thoughts,
    answer_of,
    opens_thought,
)
from rubric_judge import events
from rubric_judge.adapters import rows, scoring

__all__ = ["RewardFunction", "answer_in", "response_of", "rubric_reward"]

RewardFunction = Callable[
    [Sequence[str], Sequence[str], Sequence[object]], dict[str, object]
]

_SPECIAL = re.compile(
    r"(?:<\|[^<>|\s]{1,40}\|>|<｜[^<>｜\s]{1,40}｜>|</s>"
    r"|<(?:eos|pad|end_of_turn|endoftext|seed:eos|turn\|)>|\[e~\[)\Z"
)
_LONGEST_SPECIAL = 44
# Of a prompt that OpenRLHF cut at its start, this much must be left to be recognised.
_LEAST_PROMPT_CHARS = 16


def rubric_reward(**options: Unpack[scoring.MaskingOptions]) -> RewardFunction:
    """Return the `reward_func` of a reward file.

    Args:
        options: `judge`, `workers` (of each engine's process), `ledger`, `thoughts`; `tasks`,
            which labels name, unless a label is a row, or a line of a task file, as JSON; and
            `on_unavailable`: "zero", the default, with `rubric/unavailable` 1 in `extra_logs`;
            or "raise".

    Raises:
        ConfigError, JudgeSetupError, LedgerError: nothing could be judged like this.
    """
    scorer = scoring.RubricScorer(**options, maskable=False)

    def reward_func(
        queries: Sequence[str], prompts: Sequence[str], labels: Sequence[object]
    ) -> dict[str, object]:
        try:
            submissions = _submissions(queries, prompts, labels, scorer.thoughts)
            judgements = scorer.judge_from_thread(submissions)
        except RubricError as error:
            events.reward_failed(
                stack="openrlhf", error=type(error).__name__, detail=str(error)
            )
            raise
        torch = scoring.stack_module("torch", install="openrlhf")
        rewards = torch.tensor([judgement.reward for judgement in judgements])
        columns = scoring.metric_columns(judgements)
        logs = {name: torch.tensor(values) for name, values in columns.items()}
        return {"rewards": rewards, "scores": rewards.clone(), "extra_logs": logs}

    return reward_func


def _submissions(
    queries: Sequence[str],
    prompts: Sequence[str],
    labels: Sequence[object],
    thoughts: Thoughts,
) -> list[scoring.Submission]:
    if not queries or not len(queries) == len(prompts) == len(labels):
        raise RewardShapeError(
            f"{len(queries)} queries, {len(prompts)} prompts and {len(labels)} labels: one "
            "each, and at least one, is needed"
        )
    return [
        scoring.Submission(
            rows.label_row(label), answer_in(query, prompt, thoughts), prompt
        )
        for query, prompt, label in zip(queries, prompts, labels, strict=True)
    ]


def answer_in(query: str, prompt: str, thoughts: Thoughts = "cut") -> Answer:
    """Return the answer in a query.

    Args:
        query: prompt and response, decoded with special tokens.
        prompt: the whole prompt, as the policy read it; it may open a thought.
        thoughts: way to tell thoughts from answers.

    Raises:
        SchemaError: as `response_of`.
    """
    opened = False
    if isinstance(cast("object", prompt), str):
        opened = opens_thought(prompt, thoughts)
    # A mark of a thought may be a special token, and the last of a completion.
    answer = answer_of(_completion_of(query, prompt), thoughts, opened=opened)
    text = _without_special_end(answer.text).encode(errors="replace").decode()
    return answer._replace(text=text)


def response_of(query: str, prompt: str) -> str:
    """Cut the prompt and the closing special tokens off a query.

    Args:
        query: prompt and response, decoded with special tokens; the prompt may have lost its start
            to the length limit, and white space to the tokenizer.
        prompt: the whole prompt.

    Returns:
        The text that the policy wrote, a thought included.

    Raises:
        SchemaError: the query does not begin with the prompt or with an end of it, or one of the
            two is not text.
    """
    return _without_special_end(_completion_of(query, prompt))


def _completion_of(query: str, prompt: str) -> str:
    for field, text in (("queries", query), ("prompts", prompt)):
        if not isinstance(cast("object", text), str):
            raise SchemaError(
                f"a text is needed, not {type(text).__name__}", field=field
            )
    if query.startswith(prompt):
        return query[len(prompt) :]
    places = [
        place
        for place, char in enumerate(query)
        if not char.isspace() and char != "\ufffd"
    ]
    bare_query = "".join(query[place] for place in places)
    bare_prompt = "".join(prompt.split())
    overlap = _overlap(bare_prompt, bare_query)
    if overlap < min(_LEAST_PROMPT_CHARS, len(bare_prompt)):
        raise SchemaError(
            f"the query ({len(query)} characters) does not begin with its prompt "
            f"({len(prompt)}): the tokenizer does not give back what it is given",
            field="queries",
        )
    return query[places[overlap - 1] + 1 :].lstrip()


def _without_special_end(text: str) -> str:
    end = len(text.rstrip())
    while True:
        match = _SPECIAL.search(text, max(0, end - _LONGEST_SPECIAL), end)
        if match is None:
            break
        end = match.start()
        while end and text[end - 1].isspace():
            end -= 1
    return text[:end]


def _overlap(prompt: str, query: str) -> int:
    """Return the length of the longest end of the prompt that the query begins with."""
    joined = f"{query[: len(prompt)]}\0{prompt}"
    borders = [0] * len(joined)
    for place in range(1, len(joined)):
        length = borders[place - 1]
        while length and joined[place] != joined[length]:
            length = borders[length - 1]
        borders[place] = length + (joined[place] == joined[length])
    return borders[-1]
