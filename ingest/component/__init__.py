"""The two parts of every component: an options model, and a registry that finds the component by its name."""
