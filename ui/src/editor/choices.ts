import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { containing, type Kind, ROUTES } from "../access/principals";
import { resources } from "../access/scimsearch";
import { api, body } from "../api/client";
import type { components } from "../api/schema";
import type { Folder } from "./places";

const SHOWN = 20; // principals that are offered at once

/** Somebody who can be named: `value` is what the API takes, `label` how people know it. */
export interface Principal {
  value: string;
  label: string;
}

async function search(kind: Kind, filter: string | undefined): Promise<Principal[]> {
  return (await resources(kind, filter, SHOWN)).flatMap((each) => {
    const name = each[ROUTES[kind].name];
    return typeof name === "string" ? [{ value: name, label: each.displayName ?? name }] : [];
  });
}

/** Users, groups or service principals in whose names the text occurs. */
export const principalsQuery = (kind: Kind, text: string) =>
  queryOptions({
    queryKey: ["principals", kind, text],
    staleTime: 60_000,
    retry: false,
    placeholderData: keepPreviousData,
    queryFn: () => search(kind, text === "" ? undefined : containing(ROUTES[kind].searched, text)),
  });

/** Whether there is one of that name. */
export const isPrincipalQuery = (kind: Kind, name: string) =>
  queryOptions({
    queryKey: ["principal", kind, name],
    staleTime: 60_000,
    retry: false,
    enabled: name !== "",
    queryFn: async () => (await search(kind, `${ROUTES[kind].name} eq ${JSON.stringify(name)}`)).length > 0,
  });

/** What is in a folder: names, those of folders with a slash at the end. */
export const folderQuery = ({ api: of, path }: Folder) =>
  queryOptions({
    queryKey: ["folder", of, path],
    staleTime: 10_000,
    retry: false,
    queryFn: async (): Promise<string[]> => {
      if (of === "dbfs") {
        const { files = [] } = await body(api.GET("/api/2.0/dbfs/list", { params: { query: { path } } }));
        return files.map((each) => named(each.path, each.is_dir));
      }
      if (of === "workspace") {
        const { objects = [] } = await body(api.GET("/api/2.0/workspace/list", { params: { query: { path } } }));
        return objects.map((each) => named(each.path, each.object_type === "DIRECTORY"));
      }
      const at = `/api/2.0/fs/directories${path.split("/").map(encodeURIComponent).join("/")}`;
      const asked = api.GET(at as "/api/2.0/fs/directories{directory_path}", UNREAD);
      const { contents = [] } = (await body(asked)) as components["schemas"]["ListDirectoryResponse"];
      return contents.map((each) => named(each.path, each.is_directory));
    },
  });

const UNREAD = {} as never; // the path has its parameter already
const named = (path: string, isFolder: boolean | undefined) => `${path.split("/").at(-1)}${isFolder ? "/" : ""}`;
