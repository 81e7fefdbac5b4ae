"""Lowering of traced programs to code that runs on a device."""
