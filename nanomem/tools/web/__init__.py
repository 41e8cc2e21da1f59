"""What `web_fetch` stands on. Loaded when a page is first fetched: an HTTP client takes long to import."""
