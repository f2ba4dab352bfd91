"""Key stores of Java: their certificates and private keys, as PEM texts."""
