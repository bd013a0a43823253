"""verifiers' RubricJudge, all criteria in one call; it makes a client for every call."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from turns import Exercise, in_flight, read_workload, take_turns
from verifiers.v1.judges.rubric import RubricJudge, RubricJudgeConfig


@dataclass
class _Task:
    prompt_text: str
    answer: str


@dataclass
class _Trace:
    """What the judge reads of a rollout, and where it notes its verdicts."""

    last_reply: str

    def record_metric(self, *_: object) -> None:
        """Keep nothing."""

    def record_judge_call(self, **_: object) -> None:
        """Keep nothing."""


def main() -> None:
    """Take turns."""
    workload = read_workload()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rubric.json"
        criteria = [
            {"name": one["id"], "text": one["description"], "weight": one["weight"]}
            for one in workload.criteria
        ]
        path.write_text(json.dumps(criteria), encoding="utf-8")
        config = RubricJudgeConfig(
            path=str(path),
            model="verdicts",
            base_url=workload.url,
            api_key_var="PATH",  # any variable that is set: the endpoint asks for no key
            answer_field="answer",
            view="last_reply",
        )
        rubric_judge = RubricJudge(config)

        async def ask(exercise: Exercise) -> None:
            task = _Task(prompt_text=exercise.question, answer=exercise.passage)
            score = await rubric_judge.score(task, _Trace(exercise.response))
            if score != 1.0:
                raise RuntimeError(f"score {score!r}")

        async def judge(exercises: list[Exercise], limit: int) -> None:
            await in_flight(ask, iter(exercises), limit)

        take_turns(judge, workload, ("verifiers", "openai"))


main()
