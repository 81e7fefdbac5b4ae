"""Lowering of expressions and kernels to CUDA C++: the toolkit that engines on NVIDIA GPUs share."""
