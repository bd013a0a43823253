"""Opening of a run in the tracker that is configured; only its library is imported."""

from rubric_train_openrlhf.config import trackers
from rubric_train_openrlhf.tracking.tracker import Opening, Tracker


def open_tracker(config: trackers.TrackerConfig, opening: Opening) -> Tracker:
    """Open a new run in a tracker, or go on with one that it knows.

    Args:
        config: of the tracker.
        opening: of the run.

    Raises:
        Exception: whatever the tracker's library raises.
    """
    match config:
        case trackers.WandbTracker():
            from rubric_train_openrlhf.tracking.wandb_run import WandbRun

            return WandbRun(config, opening)
        case trackers.MlflowTracker():
            from rubric_train_openrlhf.tracking.mlflow_run import MlflowRun

            return MlflowRun(config, opening)
        case trackers.TrackioTracker():
            from rubric_train_openrlhf.tracking.trackio_run import TrackioRun

            return TrackioRun(config, opening)
