"""The same music sooner: kernels in C++ and Triton, and steps of decoding as one call each."""
