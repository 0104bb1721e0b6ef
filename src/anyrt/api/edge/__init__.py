"""What all public objects share: quiet answers, slots, one line of text, names that are missing."""
