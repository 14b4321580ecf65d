"""Faster code: attention in blocks, in C++ and on GPUs; the decoding step; reading MIDI tracks."""
