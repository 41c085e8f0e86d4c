"""How files are written: aside first, so that what stood there before is whole until the new one is."""
