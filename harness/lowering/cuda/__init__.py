"""Expressions and kernels as CUDA C++: the toolkit that engines on NVIDIA GPUs share."""
