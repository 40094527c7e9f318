"""`sdlg serve`: the pipeline behind HTTP. `create_app` makes the application, `listening.serve` runs it.

A request's way: guards (host, key, size, JSON) → schemas → engine (a checked ask) → desk (a place, a deadline) → worker
thread → answer, at once or as a stream. docs/serving.md is for its users.
"""
