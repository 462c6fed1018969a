"""Values and protocols that several floors share, so that no floor imports upward."""
