"""`python -m rubric_synth.cli`."""

from rubric_synth.cli import main

if __name__ == "__main__":
    main()
