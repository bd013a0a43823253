"""One of the processes that share an evaluation: `ranks.py RANK WORLD_SIZE METADATA FOLDER`."""

import json
import sys
from pathlib import Path
from typing import Any

import lm_eval
import torch
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager
from torch import distributed

from rubric_eval.lm_tasks import TASKS_PATH


class OneOfSeveral(LM):
    """Says the same to everything, and gathers as lm-eval's model of accelerate does."""

    def __init__(self, rank: int, world_size: int) -> None:
        super().__init__()
        self._rank, self._world_size, self._device = (
            rank,
            world_size,
            torch.device("cpu"),
        )

    def all_gather(self, tensor: torch.Tensor) -> torch.Tensor:
        parts = [torch.zeros(1, dtype=tensor.dtype) for _ in range(self._world_size)]
        distributed.all_gather(parts, tensor.reshape(1))
        return torch.cat(parts)

    def gather_object(self, obj: object, dst: int = 0) -> list[Any] | None:
        parts: list[Any] | None = (
            [None] * self._world_size if self._rank == dst else None
        )
        distributed.gather_object(obj, parts, dst=dst)
        return parts

    def barrier(self) -> None:
        distributed.barrier()

    def generate_until(self, requests: list[Any]) -> list[str]:
        return ["The matrix is factorised by rows.\n#### 4" for _ in requests]

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
        raise NotImplementedError


def main() -> None:
    """Evaluate; the first process writes the results."""
    rank, world_size, metadata = (
        int(sys.argv[1]),
        int(sys.argv[2]),
        json.loads(sys.argv[3]),
    )
    folder = Path(sys.argv[4])
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store_of_{world_size}",
        rank=rank,
        world_size=world_size,
    )
    done = lm_eval.simple_evaluate(
        model=OneOfSeveral(rank, world_size),
        tasks=["rubric_heldout", "rubric_gsm8k", "rubric_gpqa_diamond"],
        task_manager=TaskManager(
            include_defaults=False, include_path=str(TASKS_PATH), metadata=metadata
        ),
        bootstrap_iters=10,
    )
    if rank == 0:
        (folder / f"done_by_{world_size}.json").write_text(
            json.dumps(done["results"], default=str), "utf-8"
        )
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
