"""Collected documents to a dataset, over any number of runs.

collection   all that shapes an outcome, as one digest, and the documents, told apart
recorder     keeps what an engine reports, counts costs, and says when to stop
ending       why a run stops, and how soon; whether a dataset is there already
run          one run from beginning to end
"""
