"""Protocol Buffers: descriptors, the types of their columns, and the reading and writing of messages by them."""
