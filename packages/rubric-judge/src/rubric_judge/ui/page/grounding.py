"""Parts of a task that a page shows only if its maker asks for passages and rubrics."""

from typing import Any

from rubric_core import Task
from rubric_judge.ui.page.rendering import shortened, visible

MAX_PASSAGE_CHARS = 20_000


def told_grounding(
    task: Task, *, passage_chars: int = MAX_PASSAGE_CHARS
) -> dict[str, Any]:
    """Return passage and rubric of a task, every character visible.

    Args:
        task: the task.
        passage_chars: most characters of the passage.
    """
    return {
        "passage": shortened(
            task.grounding.reveal(), passage_chars, where="the tasks file"
        ),
        "rubric": [
            {
                "id": visible(str(criterion["id"])),
                "weight": criterion["weight"],
                "text": visible(
                    str(criterion.get("description") or criterion.get("name") or "")
                ),
            }
            for criterion in task.rubric.reveal()
        ],
    }
