"""Rubric rewards for other training stacks: one module per stack, none of which imports its stack.

Each maps the three outcomes of a judgement to what its stack understands: a scored response to its
reward, an invalid judgement to 0, and an unavailable one to "no reward" wherever the stack has a
way to say so.
"""
