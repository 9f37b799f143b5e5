import "@fontsource-variable/inter/wght.css";
import "@mantine/core/styles.css";
import "./app/app.css";
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { setNonce } from "get-nonce";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiError } from "./api/client";
import { follow, refreshAfterLogIn } from "./api/live";
import { clustersQuery } from "./api/queries";
import { session } from "./api/session";
import { router } from "./app/router";
import { theme, variables } from "./app/theme";

// The page's policy allows only styles with the nonce of this answer.
const nonce = document.querySelector<HTMLMetaElement>('meta[name="style-nonce"]')?.content ?? "";
setNonce(nonce);

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 30_000,
      retry: (failures, error) =>
        failures < 2 && !(error instanceof ApiError && error.status < 500 && error.status !== 429),
    },
  },
});

// The list of clusters is what most open: its code and its rows come while the session and the frame are still made ready.
const list = location.pathname === "/" || location.pathname === "/compute";
if (list) void import("./compute/page");

const root = document.getElementById("root");
if (root !== null && (await session.loggedIn())) {
  if (list) void queries.prefetchQuery(clustersQuery);
  follow(queries);
  refreshAfterLogIn(queries);
  createRoot(root).render(
    <StrictMode>
      <MantineProvider
        theme={theme}
        cssVariablesResolver={variables}
        defaultColorScheme="auto"
        getStyleNonce={() => nonce}
      >
        <QueryClientProvider client={queries}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  );
} else location.replace(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
