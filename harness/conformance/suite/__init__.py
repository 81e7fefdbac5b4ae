"""The promises of every engine, as tests; the command line of :mod:`harness.conformance` names the engine under
test."""
