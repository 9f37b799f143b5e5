import { queryOptions } from "@tanstack/react-query";
import { api, body } from "./client";

/** Where notifications can be sent to: names and kinds. */
export const destinationsQuery = queryOptions({
  queryKey: ["destinations"],
  queryFn: async () => (await body(api.GET("/api/2.0/notification-destinations", {}))).results,
});
