"""Faster implementations: attention in blocks, in C++ and on GPUs; decoding steps; MIDI tracks."""
