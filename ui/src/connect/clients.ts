/** What to copy into each SQL client. No token is in it: programs read DATABRICKS_TOKEN, people type theirs. Pure. */
import { type Address, jdbcUrl, uriOf } from "./address";

export interface Client {
  name: string;
  steps: string; // what to do with the text
  text: string; // empty: this client cannot connect, for the reason in `steps`
}

const HTTPS = 443;

/** What databricks-sql-connector takes beyond host and path, where the address is not HTTPS at port 443. */
function more(address: Address): [name: string, value: string | number][] {
  if (!address.tls) return [["_connection_uri", uriOf(address)]];
  return address.port === HTTPS ? [] : [["_port", address.port]];
}

function python(address: Address): string {
  const extra = more(address).map(([name, value]) => `    ${name}=${JSON.stringify(value)},\n`);
  return `import os

from databricks import sql

with sql.connect(
    server_hostname="${address.host}",
    http_path="${address.path}",
${extra.join("")}    access_token=os.environ["DATABRICKS_TOKEN"],
) as connection, connection.cursor() as cursor:
    cursor.execute("SELECT current_user(), current_date()")
    print(cursor.fetchall())
`;
}

function java(address: Address): string {
  return `import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;

public class Example {
    public static void main(String[] arguments) throws Exception {
        String url = "${jdbcUrl(address)}";
        try (Connection connection = DriverManager.getConnection(url, "token", System.getenv("DATABRICKS_TOKEN"));
                ResultSet rows = connection.createStatement().executeQuery("SELECT current_user()")) {
            while (rows.next()) System.out.println(rows.getString(1));
        }
    }
}
`;
}

function dbt(address: Address): string {
  const extra = more(address).map(([name, value]) => `        ${name}: ${JSON.stringify(value)}\n`);
  const parameters = extra.length > 0 ? `      connection_parameters:\n${extra.join("")}` : "";
  return `brickyard:
  target: dev
  outputs:
    dev:
      type: databricks
      catalog: main
      schema: default
      host: "${address.host}"
      http_path: "${address.path}"
      token: "{{ env_var('DATABRICKS_TOKEN') }}"
      threads: 4
${parameters}`;
}

const dbeaver = (address: Address) => `JDBC URL: ${jdbcUrl(address)}
Username: token
`;

const powerBi = ({ host, path }: Address) => `Server hostname: ${host}
HTTP path: ${path}
Authentication: Personal Access Token
`;

function powerBiSteps({ tls, port }: Address): string {
  if (!tls)
    return "Power BI needs HTTPS. Serve this workspace with --tls, or set external_url if a proxy serves HTTPS.";
  if (port !== HTTPS) return `Power BI connects to port ${HTTPS}, and this workspace is at port ${port}.`;
  return "Get data, Azure Databricks. Power BI asks for a personal access token when it connects.";
}

export function clientsOf(address: Address): Client[] {
  const steps = powerBiSteps(address);
  const reachable = address.tls && address.port === HTTPS;
  return [
    {
      name: "Python",
      steps: "pip install databricks-sql-connector, and a token in DATABRICKS_TOKEN.",
      text: python(address),
    },
    {
      name: "JDBC",
      steps: "Put com.databricks:databricks-jdbc on the class path, and a token in DATABRICKS_TOKEN.",
      text: java(address),
    },
    {
      name: "dbt",
      steps:
        "pip install dbt-databricks. This is ~/.dbt/profiles.yml; dbt_project.yml names it with profile: brickyard.",
      text: dbt(address),
    },
    {
      name: "DBeaver",
      steps: "New connection, Databricks, Connect by: URL. The password is a token.",
      text: dbeaver(address),
    },
    { name: "Power BI", steps, text: reachable ? powerBi(address) : "" },
  ];
}
