"""Answers of models to questions, kept line by line, so that none is generated twice.

store       a file of answers that grows, and what it holds, after a kill too
collecting  which answers are wanted, whose each one is, and which weights gave them; asking for
            what is missing
"""
