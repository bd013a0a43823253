"""Three stages that ask a language model.

Each asks one question with a schema for the answer, through the calls of its document, and reads
the reply strictly: a bad reply is a counted refusal, a bad draft of a reply is refused alone.
"""
