"""Time of kernels on one GPU: matrix products, attention, what memory binds."""
