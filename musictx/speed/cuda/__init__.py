"""Causal attention with a table of distances in CUDA C++; ``fused`` uses it on Hopper GPUs.

The skew takes place in registers (common.cuh): each warp reads the table from a different row on,
which Triton cannot express. Triton computes what these kernels do not support.

device.cuh    the GPU's instructions
common.cuh    tiles, the skew
forward.cu    output and log of the sums of weights
backward.cu   all gradients in one pass
finish.cu     the accumulators of backward.cu, converted to the layout and dtype of the inputs
compile.py    compiles CUDA C++ to machine code with NVRTC, and caches it
driver.py     loads machine code on the GPU and launches it, through the driver's library
kernel.py     decides which kernels are used, and converts tensors to their argument
"""
