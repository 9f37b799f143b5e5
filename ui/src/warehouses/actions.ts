import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body, words } from "../api/client";
import { markGone } from "../api/gone";
import type { Warehouse } from "../api/warehouses";
import { confirm } from "../kit/confirm";
import type { IconName } from "../kit/icons";
import { toast } from "../kit/toasts";

export type ActionName = "start" | "stop" | "delete";

interface Action {
  label: string;
  icon: IconName;
  done: string; // what is said when the server has taken it
  consequence?: string; // of what cannot be undone
  takes: "CAN_USE" | "CAN_MANAGE"; // on the warehouse
  call: (id: string) => Promise<unknown>;
  fits: (warehouse: Warehouse) => boolean;
}

const of = (id: string) => ({ params: { path: { id } }, body: {} });

export const ACTIONS: Record<ActionName, Action> = {
  start: {
    label: "Start",
    icon: "play",
    done: "is starting",
    takes: "CAN_USE",
    call: (id) => body(api.POST("/api/2.0/sql/warehouses/{id}/start", of(id))),
    fits: ({ state }) => state === "STOPPED",
  },
  stop: {
    label: "Stop",
    icon: "stop",
    done: "is stopping",
    consequence: "Running statements are canceled. The next statement starts it again.",
    takes: "CAN_MANAGE",
    call: (id) => body(api.POST("/api/2.0/sql/warehouses/{id}/stop", of(id))),
    fits: ({ state }) => state === "RUNNING" || state === "STARTING",
  },
  delete: {
    label: "Delete",
    icon: "trash",
    done: "was deleted",
    consequence: "Running statements are canceled, and clients that name its HTTP path no longer connect.",
    takes: "CAN_MANAGE",
    call: async (id) => {
      await body(api.DELETE("/api/2.0/sql/warehouses/{id}", { params: { path: { id } } }));
      markGone(id, "The SQL warehouse was deleted.");
    },
    fits: () => true,
  },
};

/** Does something to a warehouse, and says how it went. `busy`: the id of the one that waits for the server. */
export function useWarehouseActions() {
  const queries = useQueryClient();
  const [busy, setBusy] = useState("");
  const act = async (name: ActionName, { id, name: called }: Warehouse): Promise<boolean> => {
    const { label, done, consequence, call } = ACTIONS[name];
    const question = { title: `${label} ${called}?`, action: `${label} the warehouse` };
    if (consequence !== undefined && !(await confirm({ ...question, consequence }))) return false;
    setBusy(id);
    try {
      await call(id);
      toast(`${called} ${done}.`);
      return true;
    } catch (error) {
      toast(`Could not ${name} ${called}: ${words(error)}`, { failed: true });
      return false;
    } finally {
      setBusy("");
      void queries.invalidateQueries({ queryKey: ["warehouse", id] });
      void queries.invalidateQueries({ queryKey: ["warehouses"] });
    }
  };
  return { busy, act };
}
