"""instructor over litellm as it is commonly used: a pydantic model and two retries.

The prompt is ours, byte for byte.
"""

import instructor
import litellm  # noqa: TID251  # the peer itself
from pydantic import BaseModel, Field
from turns import Exercise, in_flight, read_workload, take_turns


class CriterionScore(BaseModel):
    """One criterion."""

    criterion_id: str
    awarded: float = Field(ge=0)
    reason: str = ""


class Judgement(BaseModel):
    """The reply that is asked for."""

    scores: list[CriterionScore]


def main() -> None:
    """Take turns."""
    workload = read_workload()
    client = instructor.from_litellm(
        litellm.acompletion, mode=instructor.Mode.JSON_SCHEMA
    )

    async def ask(exercise: Exercise) -> None:
        judgement = await client.chat.completions.create(
            model="openai/plain",
            api_base=workload.url,
            api_key="none",
            messages=[
                {"role": "system", "content": workload.system},
                {"role": "user", "content": workload.before + exercise.response},
            ],
            response_model=Judgement,
            temperature=0.1,
            max_tokens=16_000,
            max_retries=2,
        )
        if len(judgement.scores) != len(workload.criteria):
            raise RuntimeError(f"{len(judgement.scores)} criteria scored")

    async def judge(exercises: list[Exercise], limit: int) -> None:
        await in_flight(ask, iter(exercises), limit)

    take_turns(judge, workload, ("instructor", "litellm", "openai"))


main()
