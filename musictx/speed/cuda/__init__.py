"""Causal attention with a table of distances in CUDA C++; ``fused`` uses it on Hopper GPUs.

The skew takes place in registers (common.cuh): each warp reads the table from a different row on,
which Triton cannot express. Triton computes whatever the kernels do not support.

device.cuh    the GPU's instructions
common.cuh    tiles, the skew
forward.cu    output and log of the sums of weights
backward.cu   all gradients in one pass
finish.cu     the accumulators of backward.cu, converted to the layout and dtype of the inputs
compile.py    CUDA C++ -> machine code, by NVRTC, cached
driver.py     machine code -> the GPU, by the driver's library
kernel.py     tensors -> the kernels' argument
"""
