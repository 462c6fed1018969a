"""The `runwell` command."""
