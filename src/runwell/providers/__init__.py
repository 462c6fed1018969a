"""One package or file per model provider, each loaded by its name and imported by nobody else."""
