"""What every engine promises, as tests; the subject is named on the command line of :mod:`harness.conformance`."""
