"""What scripts/bench runs. tests/bench/README.md says how to read and extend it."""
