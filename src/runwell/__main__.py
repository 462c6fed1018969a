"""`python -m runwell` is the `runwell` command, for where the folder of commands is not on the PATH."""

from __future__ import annotations

from runwell.cli.main import main

if __name__ == "__main__":
    main()
