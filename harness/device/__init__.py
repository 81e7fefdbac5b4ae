"""A thin layer over CuPy: devices, memory, compiled modules. Importing it does not load CuPy."""
