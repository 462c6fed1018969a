"""One package for each vendor, loaded by its name and imported by no room; what several need stands beside them."""
