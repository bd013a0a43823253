from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rubric_train_openrlhf.run.writing import EventWriter

if TYPE_CHECKING:
    from pathlib import Path


class Row(BaseModel):
    step: int
    reward_mean: float
    criteria: dict[str, float]
    entropy: float | None = None
    cluster: dict[str, float | dict[str, float]] = {}


PARTS: dict[str, float | dict[str, float]] = {
    "sync_s": 2.0,
    "attribution": {"named": 0.1},
}


def test_every_number_of_a_row_is_one_scalar(tmp_path: Path) -> None:
    with EventWriter(tmp_path, first_step=1) as events:
        for step in (1, 2):
            row = Row(
                step=step, reward_mean=step / 10, criteria={"named": 0.5}, cluster=PARTS
            )
            events.write("train", row, step=step)

    read = EventAccumulator(str(tmp_path)).Reload()
    assert set(read.Tags()["scalars"]) == {
        "train/reward_mean",
        "train/criteria/named",
        "train/cluster/sync_s",
        "train/cluster/attribution/named",
    }
    assert [event.step for event in read.Scalars("train/reward_mean")] == [1, 2]
