"""The workloads, in the order they are reported. Each module is one group, run in its own process."""

GROUPS = (
    "import_cost",
    "chains",
    "streaming",
    "batching",
    "agents",
    "conversations",
    "graphs",
    "tools",
    "splitting",
    "retrieval",
    "messages",
    "providers",
    "memory",
)
