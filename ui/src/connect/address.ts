/** Where SQL clients reach a cluster or a warehouse, as the JDBC/ODBC page of Databricks shows it. Pure. */
export interface Address {
  host: string; // an IPv6 address stands in brackets
  port: number;
  tls: boolean;
  path: string; // with a slash at its beginning
}

/** `origin`: that of the workspace, as people and clients reach it. */
export function addressOf(origin: string, path: string): Address {
  const { protocol, hostname, port } = new URL(origin);
  const tls = protocol === "https:";
  return { host: hostname, port: port === "" ? (tls ? 443 : 80) : Number(port), tls, path };
}

export const clusterPath = (workspaceId: string, clusterId: string) => `/sql/protocolv1/o/${workspaceId}/${clusterId}`;

/** The address as one URL. */
export function uriOf({ host, port, tls, path }: Address): string {
  return `${tls ? "https" : "http"}://${host}:${port}${path}`;
}

export const jdbcUrl = ({ host, port, tls, path }: Address) =>
  `jdbc:databricks://${host}:${port}/default;transportMode=http;ssl=${tls ? 1 : 0};AuthMech=3;httpPath=${path};`;
