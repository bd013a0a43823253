from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import StageRefusal
def prose_drafts(document, analysis, terms, config):
    raise StageRefusal(RejectionReason.NO_PASSAGE)
