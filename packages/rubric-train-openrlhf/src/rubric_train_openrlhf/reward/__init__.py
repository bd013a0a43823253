"""From a judge's results to what a policy is trained on; whichever backend runs it.

Nothing here knows of a model, a tensor or a cluster.
"""
