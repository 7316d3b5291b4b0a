"""The console: a web page for several clusters, as a user of `kraft.client` who acts for whoever logged in."""
