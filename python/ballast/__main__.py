"""`python -m ballast` is the program `ballast`."""

from ballast._program import main

main()
