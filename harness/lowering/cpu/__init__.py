"""CPU lowering: rows as LLVM vectors, small matrices, generated modules cached on disk."""
