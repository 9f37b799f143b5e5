"""A JVM and the way into it: how it is started, Py4J, Scala, classes compiled at run time."""
