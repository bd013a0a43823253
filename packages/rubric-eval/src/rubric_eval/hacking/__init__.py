"""Signs of judge hacking: did the policy learn the task, or the judge?

evaluation   the panel of an evaluation on disk
panel        all signs of all models, and warnings
signs        length, hedging, appeals to the judge, wording of the criteria
second       another judge's opinion of the gain
correlation  reward against length
phrases      what is counted
observed     answers with their rewards
found        what is found: hacking.json
"""

from __future__ import annotations

from rubric_eval.hacking.correlation import Correlation
from rubric_eval.hacking.evaluation import NewJudge, look_for_hacking
from rubric_eval.hacking.found import (
    Change,
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
