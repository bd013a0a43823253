"""Trackers that a run is shown in beside TensorBoard: which, where, and what of it."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from rubric_train_openrlhf.policy_config import Section

_Text = Annotated[str, Field(min_length=1)]


class _Tracker(Section):
    """Settings of every tracker."""

    run_name: _Text | None = None
    """Name of the run there; that of the run folder when left out."""
    tables_every: PositiveInt | None = None
    """Steps between two tables of answers with their rewards; none when left out."""
    table_rows: Annotated[int, Field(ge=1, le=10_000)] = 64
    """Answers of a table at most, the first of the step."""
    judge_side: bool = False
    """Whether tables hold what the judge alone may see: passage, rubric, scores and the judge's
    words. Whoever reads the tracker then knows them."""


class WandbTracker(_Tracker):
    """Weights & Biases. The key is the variable WANDB_API_KEY, or that of `wandb login`."""

    type: Literal["wandb"] = "wandb"
    project: _Text = "rubric-train"
    """Project."""
    entity: _Text | None = None
    """User or team; the key's own when left out."""
    mode: Literal["online", "offline"] = "online"
    """`offline` writes below `trackers/wandb` of the run folder, for `wandb sync`."""


class MlflowTracker(_Tracker):
    """MLflow."""

    type: Literal["mlflow"] = "mlflow"
    uri: _Text | None = None
    """Server or store, such as `http://host:5000` or `sqlite:///mlflow.db`; when left out, the
    variable MLFLOW_TRACKING_URI, or MLflow's own default. A password belongs into
    MLFLOW_TRACKING_PASSWORD."""
    experiment: _Text = "rubric-train"
    """Experiment; made where there is none."""


class TrackioTracker(_Tracker):
    """Trackio, whose files are where TRACKIO_DIR says."""

    type: Literal["trackio"] = "trackio"
    project: _Text = "rubric-train"
    """Project."""


TrackerConfig = Annotated[
    WandbTracker | MlflowTracker | TrackioTracker, Field(discriminator="type")
]


def tracker_misfits(trackers: Sequence[TrackerConfig]) -> Iterator[str]:
    """Yield what is wrong with trackers that are each right in themselves."""
    types = [tracker.type for tracker in trackers]
    if repeated := sorted({name for name in types if types.count(name) > 1}):
        yield (
            f"trackers: {repeated[0]!r} stands there {types.count(repeated[0])} times; "
            "a run is shown once in each"
        )
    for place, tracker in enumerate(trackers):
        if tracker.judge_side and tracker.tables_every is None:
            yield (
                f"trackers.{place}.judge_side=true is about tables of answers, and there "
                "are none; set tables_every"
            )
