"""What papers and tools print in closed form, to compare with; the product reckons in more detail."""
