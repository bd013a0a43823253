"""What a run has come to, kept so that the next one goes on with it.

segments   append-only files of checked lines
index      where the lines of each document are
folder     both together, for one run at a time: calls and outcomes
"""
