"""The same music sooner: kernels in C++ and Triton, and a step of decoding as one call."""
