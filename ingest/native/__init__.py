"""The native implementation of decoding and encoding. The packages `formats` and `encode` are its reference."""
