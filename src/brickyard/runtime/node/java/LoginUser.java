package brickyard;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * The main class of JVMs whose user has no entry in /etc/passwd (jvm/login.py): Hadoop asks Java for the user's name, and Java fails where
 * there is none. Gives Hadoop a name, then runs the class that the first argument names, with the other arguments. Compiled as
 * NodeFiles.java is.
 */
public final class LoginUser {
    private static final String[] NAMES = new String[] {"HADOOP_USER_NAME", "SPARK_USER"};

    private LoginUser() {
    }

    public static void main(String[] given) throws Throwable {
        UserGroupInformation.setLoginUser(UserGroupInformation.createRemoteUser(name()));
        String[] arguments = new String[given.length - 1];
        System.arraycopy(given, 1, arguments, 0, arguments.length);
        Method main = Class.forName(given[0]).getMethod("main", new Class[] {String[].class});
        try {
            main.invoke(null, new Object[] {arguments});
        } catch (InvocationTargetException error) {
            throw error.getTargetException();
        }
    }

    private static String name() {
        for (int index = 0; index < NAMES.length; index++) {
            String name = System.getenv(NAMES[index]);
            if (name != null && name.length() > 0) {
                return name;
            }
        }
        return "spark";
    }
}
