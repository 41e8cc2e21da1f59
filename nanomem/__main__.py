"""`python -m nanomem`."""

from nanomem.cli import main

if __name__ == "__main__":
    main()
