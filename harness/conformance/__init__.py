"""What any engine can be held against: ``python -m harness.conformance NAME``.

What is asked of an engine is written as tests in :mod:`harness.conformance.suite`; the docstring of each says what.
:mod:`harness.conformance.matrix` holds the built-in algorithms, under every schedule, against the reference.
"""
