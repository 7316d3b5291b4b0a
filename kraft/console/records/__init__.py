"""Reading records for people: bounded reads, filters, decoders, and who may view what."""
