"""What a run has come to, kept so that the next one goes on with it.

segments   append-only files of checked lines
index      where the lines of each document are
lock       one run at a time
folder     the three together: calls and outcomes
"""

from __future__ import annotations

from rubric_synth.work.folder import WorkFolder, note_of_finished

__all__ = ["WorkFolder", "note_of_finished"]
