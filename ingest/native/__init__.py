"""The native implementation of decoding and encoding, in C. The packages formats and encode are its reference."""
