"""The same sooner: attention by blocks, in C++ and on GPUs; steps of decoding; tracks of MIDI."""
