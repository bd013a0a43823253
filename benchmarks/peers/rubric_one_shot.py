"""rubric, all criteria in one call; the call itself is its user's, here the OpenAI client's."""

import openai
from rubric import Rubric
from rubric.autograders import PerCriterionOneShotGrader
from rubric.autograders.schemas import OneShotOutput
from turns import Exercise, in_flight, read_workload, take_turns


def main() -> None:
    """Take turns."""
    workload = read_workload()
    client = openai.AsyncOpenAI(base_url=workload.url, api_key="none")
    schema = {"name": "output", "schema": OneShotOutput.model_json_schema()}
    rubric = Rubric.from_dict(
        [
            {"weight": one["weight"], "requirement": one["description"]}
            for one in workload.criteria
        ]
    )

    async def generate(
        system_prompt: str, user_prompt: str, **_: object
    ) -> OneShotOutput:
        reply = await client.chat.completions.create(
            model="oneshot",
            messages=[
                {"role": "system", "content": system_prompt},
                {"role": "user", "content": user_prompt},
            ],
            response_format={"type": "json_schema", "json_schema": schema},
            temperature=0.1,
            max_tokens=16_000,
        )
        return OneShotOutput.model_validate_json(reply.choices[0].message.content or "")

    grader = PerCriterionOneShotGrader(generate_fn=generate)

    async def ask(exercise: Exercise) -> None:
        query = f"{exercise.passage}\n\n{exercise.question}"
        report = await rubric.grade(exercise.response, autograder=grader, query=query)
        if report.score != 1.0:
            raise RuntimeError(f"score {report.score!r}")

    async def judge(exercises: list[Exercise], limit: int) -> None:
        await in_flight(ask, iter(exercises), limit)

    take_turns(judge, workload, ("rubric", "openai"))


main()
