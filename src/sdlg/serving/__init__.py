"""`sdlg serve`: the pipeline behind HTTP. `app.create_app` makes the application, `listening.serve` runs it.

A request's way: guards (host, key, size) → bodies (its fields) → asked (checked work) → admission (a place, a deadline)
→ a worker thread → the reply, at once or as a stream. docs/guides/server.md is for its users.
"""
