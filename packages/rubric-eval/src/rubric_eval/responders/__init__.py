"""Models that answer questions: how one is named, and how it is opened.

spec        a model that was named, from `NAME=KIND:WHERE` or a YAML file, and its weights
connecting  models behind a server, or anything that litellm can name
harness     Hugging Face folders, through lm-eval, each answer drawn by its own seed
drawing     one token for each row of theirs, by its seed
opening     from a specification to a model that can be asked, and its identity
"""
