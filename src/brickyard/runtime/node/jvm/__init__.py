"""The JVM: starting it, Py4J, Scala, classes compiled at run time."""
