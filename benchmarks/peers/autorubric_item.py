"""autorubric, all criteria in one call (its default is one call for each)."""

from autorubric import LLMConfig, Rubric
from autorubric.graders import CriterionGrader
from turns import Exercise, in_flight, read_workload, take_turns


def main() -> None:
    """Take turns."""
    workload = read_workload()
    model = LLMConfig(model="openai/item", api_base=workload.url, api_key="none")
    grader = CriterionGrader(judge_model_config=model, llm_calls="per_item")
    rubric = Rubric.from_dict(
        [
            {"weight": one["weight"], "requirement": one["description"]}
            for one in workload.criteria
        ]
    )

    async def ask(exercise: Exercise) -> None:
        report = await rubric.grade(
            to_grade=exercise.response,
            grader=grader,
            query=exercise.question,
            reference_submission=exercise.passage,
        )
        if report.score != 1.0:
            raise RuntimeError(f"score {report.score!r}: {report.error!r}")

    async def judge(exercises: list[Exercise], limit: int) -> None:
        await in_flight(ask, iter(exercises), limit)

    take_turns(judge, workload, ("autorubric", "litellm", "openai"))


main()
