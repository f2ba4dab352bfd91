"""What every component is made of: an options model, and a registry that finds it by its name."""
