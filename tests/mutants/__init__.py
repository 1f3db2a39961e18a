"""Mutants: faults planted one at a time, to see whether the tests that always run notice them.

`python -m tests.mutants --help` says what can be run; docs/testing.md says when.
"""
