"""The process of one tracker: `python -m rubric_train_openrlhf.tracking.process FOLDER TYPE`.

It follows the run until its standard input is closed, which the system does however the run ends;
then it shows the rest and ends. If it fails, it says why in one line of JSON on standard output.
"""

import contextlib
import json
import os
import select
import signal
import sys
from itertools import chain
from pathlib import Path

from rubric_core import read_tasks
from rubric_core.files import text_sha256
from rubric_core.locks import file_lock
from rubric_train_openrlhf.config.trackers import TrackerConfig
from rubric_train_openrlhf.config.train import TrainConfig, load_config
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.step.tasks import TaskSet
from rubric_train_openrlhf.tracking.figures import Measuring
from rubric_train_openrlhf.tracking.following import Follower, Shown, note_path
from rubric_train_openrlhf.tracking.opening import open_tracker
from rubric_train_openrlhf.tracking.settings import shown_settings, without_secrets
from rubric_train_openrlhf.tracking.tracker import Opening

END_S = 30
"""Time that a tracker has for the rest, once the run has ended."""
_LOOK_EVERY_S = 0.5
_LONGEST = 300
"""Characters of the line that says why it failed."""


def main(folder: str, kind: str) -> None:
    """Show a run to a tracker until the run ends; end with status 1 where the tracker fails."""
    # Ctrl-C is for the run, which closes the input when it has ended.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What the tracker prints goes to its log, and only what is written here to the run.
    to_the_run = os.dup(1)
    os.dup2(2, 1)
    try:
        _follow(RunFolder(Path(folder)), kind)
    # The boundary for trackers: whatever they raise stops them, but not the run.
    except Exception as error:  # noqa: BLE001
        lines = f"{type(error).__name__}: {error}".splitlines()
        line = without_secrets(" ".join(lines))[:_LONGEST]
        message = f"{json.dumps({'error': line})}\n".encode()
        # A run that was killed does not listen.
        with contextlib.suppress(BrokenPipeError):
            os.write(to_the_run, message)
        # An ordinary exit would wait for the tracker's threads, which may wait for its server.
        os._exit(1)
    os._exit(0)


def _follow(folder: RunFolder, kind: str) -> None:
    config = load_config(folder.config)
    [tracker_config] = [part for part in config.trackers if part.type == kind]
    note = note_path(folder, tracker_config)
    # The process that an earlier, killed start of the run left may still show the rest.
    with file_lock(note, wait=True):
        shown = Shown.read(note, destination=_destination(tracker_config))
        opening = Opening(
            run_id=shown.run_id,
            name=tracker_config.run_name or folder.path.absolute().name,
            settings=shown_settings(
                config.model_dump(mode="json", exclude={"trackers"})
            ),
            files=folder.trackers.absolute(),
        )
        tracker = open_tracker(tracker_config, opening)
        follower = Follower(
            folder,
            tracker_config,
            tracker,
            shown=shown,
            measuring=Measuring(_tasks(config)),
        )
        while not _has_ended():
            follower.poll()
        # If the run was killed, nothing else ends this process in time.
        signal.alarm(END_S)
        follower.poll()
        summary = folder.told
        tracker.finish("running" if summary is None else summary.status)


def _has_ended() -> bool:
    """Wait a little, and return whether the run has ended."""
    ready, _, _ = select.select([sys.stdin], [], [], _LOOK_EVERY_S)
    return bool(ready)


def _destination(config: TrackerConfig) -> str:
    """Return a digest of the place where a tracker keeps the run, which does not give it away."""
    places = config.model_dump(
        mode="json", include={"type", "project", "entity", "uri", "experiment", "mode"}
    )
    return text_sha256(json.dumps(places, sort_keys=True))


def _tasks(config: TrainConfig) -> TaskSet:
    """Return the tasks whose criteria the run pools."""
    data = config.data
    tasks = read_tasks(data.train)
    if data.validation is None:
        return TaskSet(tasks)
    heldout = TaskSet(read_tasks(data.validation)).first(config.validation.questions)
    return TaskSet(chain(tasks, heldout.values()))


if __name__ == "__main__":
    main(*sys.argv[1:])
