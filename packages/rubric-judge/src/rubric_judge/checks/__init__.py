"""Verification methods that a program can execute: `directive` reads them, `execute` runs them.

The module of each kind of check says how it is written.
"""
