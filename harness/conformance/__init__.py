"""The conformance suite for any engine: ``python -m harness.conformance NAME``.

The requirements on an engine are tests in :mod:`harness.conformance.suite`, each described by its docstring.
:mod:`harness.conformance.matrix` compares the built-in algorithms, under every schedule, with the reference.
"""
