"""What an application imports: the client and its types. Not built yet."""
