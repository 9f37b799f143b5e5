import { queryOptions, useQuery } from "@tanstack/react-query";
import { session } from "../api/session";

const userQuery = queryOptions({
  queryKey: ["session-user"],
  staleTime: Number.POSITIVE_INFINITY,
  queryFn: () =>
    session.get().then(
      (found) => found.user_name,
      () => "",
    ),
});

/** The name of who is logged in; "" if it cannot be read, undefined until it is. */
export const useUser = () => useQuery(userQuery).data;
