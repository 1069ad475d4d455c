"""What tests that cross layers share: writers, an independent reader, models. Knows nothing of damacy's insides."""
