"""A comparison harness for graph engines. Plugins import `harness.api`; everybody else runs `onyx-harness`."""

__version__ = "0.1.0"
