"""What a run has come to, kept so that the next one goes on with it.

segments   append-only files of checked lines
index      where the lines of each document are
lock       one run at a time
folder     the three together: calls and outcomes
"""
