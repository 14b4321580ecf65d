"""Faster attention, by blocks, in C++ and on GPUs, and a step of decoding as one call."""
