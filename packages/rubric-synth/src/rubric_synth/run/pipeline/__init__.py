"""Collected documents to a dataset, over any number of runs.

collection   all that shapes an outcome, as one digest, and the documents, told apart
recording    keeps what an engine reports, counts costs, and says when and why to stop
run          one run from beginning to end
"""
