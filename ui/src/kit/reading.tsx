import { Trouble } from "./trouble";
import { Waiting } from "./waiting";

/** A query that has no data yet, as far as it matters here. */
export interface Query {
  isError: boolean;
  error: unknown;
  refetch: () => unknown;
}

/** What stands in place of data that has not been read yet: bars, or why it cannot be read. `what`: "Reading the clusters". */
export function Reading({ query, what, rows }: { query: Query; what: string; rows?: number }) {
  if (query.isError) {
    const refused = what.replace(/^Reading\b/, "Could not read");
    return <Trouble error={query.error} retry={() => void query.refetch()} what={refused} />;
  }
  return <Waiting what={what} rows={rows} />;
}
