"""A comparison harness for graph engines. Plugins import `harness.api`; users run the command `onyx-harness`."""

__version__ = "0.1.0"
