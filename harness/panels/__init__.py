"""Runs of a panel of features at a time, where features are independent and their values exceed the memory."""
