"""Causal attention with a table of distances in CUDA C++: what ``fused`` runs on Hopper.

The skew takes place in registers (common.cuh), which Triton cannot say: there each warp reads rows
of the table that begin elsewhere. Everything that the kernels do not know is left to Triton.

device.cuh    the device's instructions
common.cuh    tiles, the skew
forward.cu    output and log of the sums of weights
backward.cu   all gradients in one pass
finish.cu     its sums in the usual order, in the inputs' type
compile.py    CUDA C++ -> machine code, by NVRTC, cached
driver.py     machine code -> the GPU, by the driver's library
kernel.py     tensors -> the kernels' argument
"""
