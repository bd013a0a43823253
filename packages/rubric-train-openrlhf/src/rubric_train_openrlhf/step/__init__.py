"""One step of training, whichever backend runs it: judgements → rewards → credit → rows.

Nothing here knows of a model, a tensor or a cluster.
"""
