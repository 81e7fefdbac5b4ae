"""An emulated CUDA device: generated kernels, compiled as C++, run on the CPU.

It needs g++ and no GPU. Tests run kernels on it, and the memory model counts their requests to memory
(:mod:`harness.emulation.counting`).
"""
