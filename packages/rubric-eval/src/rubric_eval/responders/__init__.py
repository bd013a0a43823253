"""Models that answer questions: their specifications, and their opening.

spec          specifications, from `NAME=KIND:WHERE` or a YAML file, and fingerprints of weights
chat          models behind a server, or any model that litellm can name
connecting    opening of those, once their server has said what it serves
harness       Hugging Face folders, through lm-eval, each answer drawn by its own seed
folder_model  weights and tokenizer of such a folder: prompts, and answers to them
drawing       drawing of one token for each row of those, by its seed
thinking      separation of a server's answers from its thoughts
opening       opening of a specified model, with its identity
"""
