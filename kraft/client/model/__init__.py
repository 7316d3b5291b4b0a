"""What a user of the client gives and gets: settings, values, errors, and the checks of arguments."""
