"""Where people work already: each file fits sdlg into one other package, which is an extra of its own."""
