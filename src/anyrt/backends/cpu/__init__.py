"""The processor that the program runs on."""
