import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type Cluster, words } from "../api/client";
import { markGone } from "../api/gone";
import { clustersQuery } from "../api/queries";
import { confirm } from "../kit/confirm";
import { toast } from "../kit/toasts";
import { nameOf } from "./facts";

const NAMED = 5;

/** "a, b and 3 more". */
function listed(clusters: Cluster[]): string {
  const names = clusters.map(nameOf);
  const more = names.length - NAMED;
  return more > 0 ? `${names.slice(0, NAMED).join(", ")} and ${more} more` : names.join(", ");
}

interface Kind {
  noun: string;
  uses: (id: string) => (cluster: Cluster) => boolean;
  consequence: (using: string) => string; // of the clusters that use it; "": none
  call: (id: string) => Promise<unknown>;
  refresh: (queries: QueryClient) => Promise<void>;
}

/** Deletes what clusters use, after saying which of them do. `remove` resolves to whether it is gone. */
export function useDeletion({ noun, uses, consequence, call, refresh }: Kind) {
  const queries = useQueryClient();
  const [busy, setBusy] = useState("");
  const remove = async (id: string, name: string): Promise<boolean> => {
    const known = () => queries.getQueryData(clustersQuery.queryKey) ?? [];
    const clusters = await queries.fetchQuery({ ...clustersQuery, staleTime: 0 }).catch(known); // one may just have been created
    const using = clusters.filter(uses(id));
    const question = {
      title: `Delete ${name}?`,
      consequence: consequence(listed(using)),
      action: `Delete the ${noun}`,
    };
    if (!(await confirm(question))) return false;
    setBusy(id);
    try {
      await call(id);
      markGone(id, `The ${noun} was deleted.`);
      toast(`${name} was deleted.`);
      return true;
    } catch (error) {
      toast(`Could not delete ${name}: ${words(error)}`, { failed: true });
      return false;
    } finally {
      setBusy("");
      void refresh(queries);
    }
  };
  return { busy, remove };
}
