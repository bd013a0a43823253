"""rubric_judge: a pool of the judge's own calls, over the transport and model that it is told."""

import logging
import sys

import structlog
from turns import Exercise, read_workload, take_turns

from rubric_core import Criterion, Grounding, JudgeView, Outcome, Rubric
from rubric_judge import JudgeConfig, JudgePool, LLMJudge


def main() -> None:
    """Take turns."""
    # As the command line does: an event is made for every call, and filtered.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING)
    )
    workload = read_workload()
    config = JudgeConfig.model_validate(
        {"model": sys.argv[3], "api_base": workload.url, "transport": sys.argv[2]}
    )
    judge = LLMJudge(config)
    rubric = Rubric(criteria=tuple(Criterion(**fields) for fields in workload.criteria))
    groundings = [Grounding(passage) for passage in workload.passages]

    def view(exercise: Exercise) -> JudgeView:
        return JudgeView(
            task_id=f"{exercise.task:016x}",
            question=exercise.question,
            grounding=groundings[exercise.task],
            response=exercise.response,
            rubric=rubric,
        )

    async def judge_all(exercises: list[Exercise], limit: int) -> None:
        pool = JudgePool(judge, workers=limit, micro_batch=1)
        results = await pool.judge_all([view(exercise) for exercise in exercises])
        if wrong := [
            result for result in results if result.outcome is not Outcome.SCORED
        ]:
            raise RuntimeError(
                f"{len(wrong)} not scored, the first for {wrong[0].reason}"
            )

    packages = ("rubric-judge", "aiohttp", "litellm", "openai")
    take_turns(judge_all, workload, packages)


main()
