"""A rehearsal that waited too long says so, and nothing of the cluster."""

from pathlib import Path

import pytest

from rubric_train_openrlhf.cluster.rehearse import checking, rehearsal
from rubric_train_openrlhf.cluster.rehearse.stage import Ended


@pytest.mark.parametrize(
    ("status", "said", "is_of_the_cluster"),
    [
        (None, "rubric-train: waiting for engines", False),
        (1, "TimeoutError: the engine did not start within 120 s", False),
        (
            1,
            "ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready.",
            False,
        ),
        (
            1,
            "RuntimeError: Timed out initializing process group in store based barrier",
            False,
        ),
        (1, "ValueError: the objective is NaN", True),
    ],
)
def test_a_wait_that_ran_out_is_no_stop_of_the_cluster(
    status: int | None, said: str, *, is_of_the_cluster: bool, tmp_path: Path
) -> None:
    log = tmp_path / "run.log"
    log.write_text(f"started\n{said}\n")
    ended = Ended(status, 600.0, log, frozenset())

    found = rehearsal.bad_ending(ended)

    assert found.status is checking.Status.FAILED
    assert ("the cluster would stop" in found.remedy) is is_of_the_cluster
    assert ("says nothing of the cluster" in found.remedy) is not is_of_the_cluster
