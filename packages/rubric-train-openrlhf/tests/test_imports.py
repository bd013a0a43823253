"""What a process that only reads a configuration, or judges, does not pay for."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "config",
        "run",
        "report",
        "cluster.launching.launch",
        "cluster.judging",
        "tracking.process",
    ],
)
def test_a_configuration_a_run_folder_and_the_judge_s_side_take_no_torch(
    module: str,
) -> None:
    heavy = ("torch", "transformers", "wandb", "mlflow", "trackio")
    code = (
        f"import sys, rubric_train_openrlhf.{module}; "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_names_of_the_objective_load_when_they_are_asked_for() -> None:
    from rubric_train_openrlhf import objective

    assert all(getattr(objective, name) is not None for name in objective.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = objective.no_such_name
