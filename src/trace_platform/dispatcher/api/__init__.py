"""The Dispatcher's HTTP face. Routes call verbs and decide nothing."""
