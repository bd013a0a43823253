"""Signs of judge hacking: did the policy learn the task, or the judge?

evaluation   the panel of an evaluation on disk
panel        all signs of all models, and warnings
signs        phrases, length, hedging, appeals to the judge, wording of the criteria
second       another judge's opinion of the gain
found        answers with their rewards, reward against length, and what is found: hacking.json
"""

from __future__ import annotations

from rubric_eval.hacking.evaluation import NewJudge, look_for_hacking
from rubric_eval.hacking.found import (
    Change,
    Correlation,
    Divergence,
    HackingPanel,
    HackingSettings,
    ModelSigns,
    SecondOpinion,
)
from rubric_eval.hacking.panel import hacking_panel

__all__ = [
    "Change",
    "Correlation",
    "Divergence",
    "HackingPanel",
    "HackingSettings",
    "ModelSigns",
    "NewJudge",
    "SecondOpinion",
    "hacking_panel",
    "look_for_hacking",
]
