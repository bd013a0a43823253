"""An evaluation with inspect_ai, scored by rubrics.

    cp examples/adapters/with_inspect_ai.py .
    inspect eval with_inspect_ai.py --model openai/gpt-4.1-mini
    inspect eval with_inspect_ai.py --model vllm/Qwen/Qwen3-8B -T tasks=dataset/validation.jsonl

inspect_ai runs a file in the folder of that file: `dataset/test.jsonl` and `judge.yaml` lie there.
"""

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.solver import generate

from rubric_core import read_tasks
from rubric_judge.adapters.inspect_ai import rubric_scorer


@task
def rubric_eval(tasks: str = "dataset/test.jsonl", judge: str = "judge.yaml") -> Task:
    """Ask every question; a sample's id is that by which the judge finds the rubric."""
    views = [one.policy_view() for one in read_tasks(tasks)]
    return Task(
        dataset=MemoryDataset([Sample(id=view.task_id, input=view.message) for view in views]),
        solver=generate(),
        scorer=rubric_scorer(judge=judge, tasks=tasks),
    )
