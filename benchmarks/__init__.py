"""How fast, how big and how thrifty nanomem is, measured from outside on the emulators of the tests."""
