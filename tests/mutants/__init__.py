"""Mutants: faults planted one at a time, to see whether the tests that always run notice them.

`python -m tests.mutants --help` says what can be run; contributing.md, "Tests", says when.
"""
