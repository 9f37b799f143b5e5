import { queryOptions } from "@tanstack/react-query";
import { api, body } from "../api/client";
import type { components } from "../api/schema";
import type { Folder } from "./places";

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
